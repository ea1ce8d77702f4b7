/** Servers on the person's own machine need no TLS. */
const local = ['localhost', '127.0.0.1'];

/**
 * What the policy of the page lets it fetch.
 * @returns what is wrong with the address, or undefined
 */
export function faultOfModelUrl(text: string, page: string): string | undefined {
  const url = URL.parse(text, page);
  if (!url || !/^https?:$/.test(url.protocol))
    return 'must be an address, for example https://host/model.gguf';
  return url.protocol === 'https:' || url.origin === new URL(page).origin || local.includes(url.hostname)
    ? undefined
    : 'must begin with https://, but for this server and localhost';
}

/** The address that the engine keeps a model under; what is no address stays what it is, for the engine to refuse. */
export function resolvedModelUrl(text: string, page: string): string {
  const url = URL.parse(text, page);
  if (!url) return text;
  url.hash = '';
  return url.href;
}
