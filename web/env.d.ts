/** Constants that the build sets (vite.config.ts). */
interface ImportMetaEnv {
  /** Whether the demo has a service worker. */
  readonly HAS_SERVICE_WORKER: boolean;
}
