/** Configuration of a server. It contains secrets and must not be shown as a whole. */
export interface McpServerConfig {
  readonly name: string;
  /** Timeout of connecting, and of each call. */
  readonly timeoutMs: number;
  /** Hashes of the tools that a person reviewed, by tool name. */
  readonly pins: ReadonlyMap<string, string>;
  readonly transport: McpTransport;
}

export type McpTransport =
  | {
      readonly kind: 'stdio';
      readonly program: string;
      readonly args: readonly string[];
      /** Variables inherited from the host's environment, such as `PATH` and `HOME`. */
      readonly inherited: Readonly<Record<string, string>>;
      /** Configured variables; may be secret. */
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string | undefined;
    }
  | { readonly kind: 'http'; readonly url: string; readonly headers: Readonly<Record<string, string>> };
