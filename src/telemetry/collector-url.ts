/** What is wrong with a collector URL; undefined if it is valid. Does not repeat the URL, which may hold a key. */
export function findCollectorUrlFault(value: string): string | undefined {
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) return 'expected an http:// or https:// URL, such as http://localhost:4318';
  if (url.username !== '' || url.password !== '')
    return 'must not hold a user or password; OTEL_EXPORTER_OTLP_HEADERS takes an authorization header';
  return undefined;
}
