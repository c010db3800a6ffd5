export { packFolder, packFolderStream, packFolderToFile } from './artifact/pack-folder.ts'
export type { PackOptions } from './artifact/pack-folder.ts'
export { pullArtifactLayers } from './artifact/pull-artifact.ts'
export type { PullArtifactOptions, PulledArtifact } from './artifact/pull-artifact.ts'
export { pushArtifact } from './artifact/push-artifact.ts'
export type { LayerSource, PushArtifactOptions } from './artifact/push-artifact.ts'
export { defaultUnpackLimits, unpackTar, unpackTarGz } from './artifact/unpack.ts'
export type { UnpackLimits } from './artifact/unpack.ts'
export { ecrTokens } from './aws/ecr-tokens.ts'
export type { EcrOptions } from './aws/ecr-tokens.ts'
export { signAwsRequest } from './aws/sign-request.ts'
export type { AwsKeys, AwsRequest } from './aws/sign-request.ts'
export type { BlobDownload, GetBlobOptions } from './client/blob-download.ts'
export type { BlobSource, PutBlobOptions, UploadSessions } from './client/blob-upload.ts'
export { createRegistryClient, readBlob } from './client/client.ts'
export type { CallOptions, FetchedManifest, ManifestInfo, RegistryClient } from './client/client.ts'
export { anonymous, basicCredentials, ecrCredentials } from './client/credentials.ts'
export type { Credential, Credentials, EcrTokenSource } from './client/credentials.ts'
export { parseCredentialFile } from './client/docker-config.ts'
export type { CredentialFile } from './client/docker-config.ts'
export { downloadFile } from './client/download-file.ts'
export type { DownloadOptions } from './client/download-file.ts'
export { proxyDispatcher } from './client/proxy.ts'
export { proxyRoutes } from './client/proxy-routes.ts'
export type { ReferrerOptions } from './client/listings.ts'
export type { RetryPolicy } from './client/retry.ts'
export type { RegistryClientOptions } from './client/transport.ts'
export { redeemToken } from './client/token-flow.ts'
export { createUploadSessions } from './client/upload-sessions.ts'
export { copyArtifact } from './copy/copy-artifact.ts'
export type { ArtifactStore, CopyEnd, CopyOptions, CopyResult } from './copy/copy-artifact.ts'
export type { CopyProgress } from './copy/progress.ts'
export { createSourceLimit } from './copy/source-limit.ts'
export type { SourceLimit, SourceLimitOptions } from './copy/source-limit.ts'
export { createTransfers } from './copy/transfers.ts'
export type { Transfers, Wanted } from './copy/transfers.ts'
export { createContentCheck, createVerifier, digestOf, sha256Digest, verifyBytes } from './digest.ts'
export type { ContentCheck } from './digest.ts'
export { isOciError, OciError } from './errors.ts'
export type { OciErrorCode } from './errors.ts'
export { collectGarbage } from './garbage.ts'
export type { GarbageOptions, GarbageReport } from './garbage.ts'
export { isImageName, parseImageName, registryUrl, wholeImageName } from './image-name.ts'
export { exportLayout, exportLayoutTar, importLayout, importLayoutTar } from './layout/layout.ts'
export type { ExportOptions, ImportOptions } from './layout/layout.ts'
export { isIndexMediaType, manifestBlobs, mediaTypes, namedInAnnotation, parseManifest } from './manifest.ts'
export type { Descriptor, OciManifest } from './manifest.ts'
export { formatPlatform, parsePlatform, selectPlatform } from './platform.ts'
export type { Platform } from './platform.ts'
export {
  formatImageReference,
  isDigest,
  isRepository,
  isTag,
  parseDigest,
  parseImageReference,
  parseRepository,
  parseTag,
} from './reference.ts'
export type { Digest, DigestAlgorithm, ImageReference } from './reference.ts'
export type {
  AccessDecision,
  AccessRefusal,
  AccessRequest,
  Authorize,
  RegistryAction,
} from './registry/access.ts'
export { createClosures } from './registry/closures.ts'
export type { Closures, ClosuresOptions } from './registry/closures.ts'
export type { Redeem, RegistryEvent } from './registry/exchange.ts'
export { createRegistryHandler } from './registry/handler.ts'
export type { RegistryHandler, RegistryLogRecord, RegistryOptions } from './registry/handler.ts'
export { RegistryRefusal } from './registry/respond.ts'
export { READ_AHEAD_BYTES, startRegistryServer } from './registry/server.ts'
export type { RegistryServer, RegistryServerOptions } from './registry/server.ts'
export { authorizeWith, createTokenIssuer } from './registry/token.ts'
export type { Grant, RepositoryGrant, TokenCheck, TokenChecks, TokenIssuer } from './registry/token.ts'
export { createFileStorage } from './storage/file-storage.ts'
export type { FileStorageOptions } from './storage/file-storage.ts'
export type {
  ByteRange,
  Kept,
  PutManifestOptions,
  Storage,
  StorageUpkeep,
  StoredManifest,
} from './storage/storage.ts'
export { registryUsage } from './usage.ts'
export type { RegistryUsage, RepositoryUsage } from './usage.ts'
