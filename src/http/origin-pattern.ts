/** Returns what is wrong with a pattern of allowed origins; undefined where it is valid. */
export function findOriginFault(pattern: string): string | undefined {
  if (pattern === '*') return undefined;
  if (pattern.toLowerCase() === 'null')
    return "'null' is the origin of files and sandboxed frames, which any page can open; name an origin with a scheme";
  if (pattern.split('*').length > 2) return "expected at most one '*'";
  if (/^[^:]*:\/\/[^/]*[/?#]/.test(pattern)) return 'an origin ends with its host and port, without a path';
  if (!/^[^\s,/]+:\/\/[^\s,/]+$/.test(pattern) && !/^\*[^\s,/]+$/.test(pattern))
    return "expected an origin such as https://app.example.com, http://localhost:* or chrome-extension://*, or '*'";
  if (pattern.includes('*') || !/^https?:/i.test(pattern)) return undefined;
  const origin = URL.parse(pattern)?.origin;
  if (origin === undefined) return 'this is not a URL';
  return origin === pattern.toLowerCase() ? undefined : `browsers write this origin as ${origin}`;
}

/** Whether a pattern matches the pages of every web site, on any port or on one. */
export const isEveryOrigin = (pattern: string): boolean => /^(?:(?:https?:\/\/)?\*(?::\d+)?)$/i.test(pattern);

/** Whether a pattern matches an origin. `*` stands for any text, and as a port for any port or none. */
export function matchesOrigin(pattern: string, origin: string): boolean {
  const [start = '', end] = pattern.toLowerCase().split('*');
  const text = origin.toLowerCase();
  if (end === undefined) return text === start;
  if (end === '' && start.endsWith(':'))
    return text === start.slice(0, -1) || (text.startsWith(start) && /^\d+$/.test(text.slice(start.length)));
  return text.length >= start.length + end.length && text.startsWith(start) && text.endsWith(end);
}
