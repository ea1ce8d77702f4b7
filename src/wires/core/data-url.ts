const form = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w-]+=[^;,]*)*;base64,/i;

/** What a data URL in base64 holds; undefined where it is none. */
export function dataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  // The data may have megabytes: only its head is matched.
  const head = form.exec(url.slice(0, 256));
  return head?.[1] ? { mediaType: head[1].toLowerCase(), data: url.slice(head[0].length) } : undefined;
}
