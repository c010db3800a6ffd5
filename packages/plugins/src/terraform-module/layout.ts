/** How the artifact of a terraform_module lies: the module, and beside it a mirror of the providers that it needs. */
export const MODULE_FOLDER = '.'
export const PROVIDERS_FOLDER = '.tenon/providers'
