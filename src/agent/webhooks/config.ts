/** An endpoint that events are posted to, from the configuration file. */
export interface WebhookConfig {
  readonly url: string;
  /** `whsec_` and base64. */
  readonly secret: string;
  /** Types or groups; undefined: all. */
  readonly types?: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}
