/** An endpoint that events are posted to, from the configuration file. */
export interface WebhookConfig {
  readonly url: string;
  /** `whsec_` and base64. */
  readonly secret: string;
  /** Types or groups; undefined: all. */
  readonly types?: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

/** A URL for people: its path, without the query, which may hold a secret. */
export function toShownUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  return `${origin}${pathname}${search === '' ? '' : '?…'}`;
}
