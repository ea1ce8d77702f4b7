/** A server as the host is configured with it, secrets and all: never shown as a whole. */
export interface McpServerConfig {
  readonly name: string;
  /** Of connecting, and of each call. */
  readonly timeoutMs: number;
  /** Tools of the server, and what they were hashed to when a person looked at them. */
  readonly pins: ReadonlyMap<string, string>;
  readonly transport: McpTransport;
}

export type McpTransport =
  | {
      readonly kind: 'stdio';
      readonly program: string;
      readonly args: readonly string[];
      /** Of the host's own environment: what any program needs, `PATH` and `HOME` among it. */
      readonly inherited: Readonly<Record<string, string>>;
      /** What it was given besides; may be secret. */
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string | undefined;
    }
  | { readonly kind: 'http'; readonly url: string; readonly headers: Readonly<Record<string, string>> };
