/** Servers on the user's machine do not need TLS. */
const localHosts = ['localhost', '127.0.0.1'];

/**
 * Checks a model URL against the Content-Security-Policy of the page.
 * @returns what is wrong with the URL, or undefined
 */
export function modelUrlFault(text: string, page: string): string | undefined {
  const url = URL.parse(text, page);
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be a URL, for example https://host/model.gguf';
  return url.protocol === 'https:' || url.origin === new URL(page).origin || localHosts.includes(url.hostname)
    ? undefined
    : 'must start with https://, except for this server and localhost';
}

/**
 * The absolute URL under which the engine stores a model. Text that is not a URL is returned unchanged; the engine
 * refuses it.
 */
export function resolveModelUrl(text: string, page: string): string {
  const url = URL.parse(text, page);
  if (!url) return text;
  url.hash = '';
  return url.href;
}
