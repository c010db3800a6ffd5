/** By these a program finds the cluster whose pod it runs in; its account's token and certificate are files. */
const CLUSTER = ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT', 'KUBERNETES_SERVICE_PORT_HTTPS']

/** What clouds set in a pod or task that has an identity: names, regions, addresses and files, never a credential. */
const CLOUD = [
  'AWS_REGION',
  'AWS_DEFAULT_REGION',
  'AWS_ROLE_ARN',
  'AWS_ROLE_SESSION_NAME',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_STS_REGIONAL_ENDPOINTS',
  'AWS_CONTAINER_CREDENTIALS_FULL_URI',
  'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE',
  'GOOGLE_APPLICATION_CREDENTIALS',
  'GOOGLE_CLOUD_PROJECT',
  'CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE',
  'CLOUDSDK_CORE_PROJECT',
  'CLOUDSDK_COMPUTE_REGION',
  'AZURE_CLIENT_ID',
  'AZURE_TENANT_ID',
  'AZURE_FEDERATED_TOKEN_FILE',
  'AZURE_AUTHORITY_HOST',
]

/** The way out, and whom to trust on it. Programs differ in the case of the first. */
const PROXIES = ['HTTPS_PROXY', 'HTTP_PROXY', 'ALL_PROXY', 'NO_PROXY']
const TRUST = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'AWS_CA_BUNDLE', 'CURL_CA_BUNDLE']

/**
 * The variables of its surroundings that a job has besides those its agent gave it, and that it hands on to tools.
 * Each is named whole: a prefix such as `AWS_` would let keys pass, `AWS_CONTAINER_AUTHORIZATION_TOKEN` among them.
 */
export const JOB_SURROUNDINGS: readonly string[] = [
  ...CLUSTER,
  ...CLOUD,
  ...PROXIES,
  ...PROXIES.map((name) => name.toLowerCase()),
  ...TRUST,
]
