/**
 * Whether an origin is that of a `Host` header, by either protocol: behind a TLS proxy the host is called by HTTP. The proxy may
 * send the port that the origin leaves out.
 */
export function isOriginOf(origin: string, host: string): boolean {
  const url = URL.parse(origin);
  if (!url || !/^https?:$/.test(url.protocol) || url.origin !== origin) return false;
  const name = host.toLowerCase();
  const defaultPort = url.protocol === 'https:' ? ':443' : ':80';
  return url.host === name || (url.port === '' && `${url.host}${defaultPort}` === name);
}
