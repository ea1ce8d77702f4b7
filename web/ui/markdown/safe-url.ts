const safeProtocols: ReadonlySet<string> = new Set(['http:', 'https:', 'mailto:']);

/** The absolute URL of a link in a model's text; undefined when it is relative or its protocol may run code. */
export function safeUrl(text: string): string | undefined {
  const url = URL.parse(text);
  return url && safeProtocols.has(url.protocol) ? url.href : undefined;
}
