/** Files that are right, to be made wrong in one place. */
export const repo = '[public_repo]\nrepo = "o/r"\ndirectory = "."\nbranch = "main"\n'
export const terraform = (more = '') =>
  `name = "db"\ntype = "terraform_module"\nterraform_version = "1.11.3"\n${more}${repo}`
export const helm = (more = '') => `name = "app"\ntype = "helm_chart"\nchart_name = "app"\n${more}${repo}`
export const action = (
  more = '',
  triggers = '[[triggers]]\ntype = "manual"\n',
  steps = '[[steps]]\nname = "s"\ncommand = "./x"\n',
) => `name = "act"\ntimeout = "5m"\n${more}${triggers}${steps}`
export const script = (name: string, more: string) =>
  `name = "${name}"\ntype = "script"\nsource = "src/web"\n${more}`
