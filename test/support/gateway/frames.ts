import type { SseFrame } from '../../../src/wires/core/wire.ts';

/**
 * A whole stream as text, strictly: every line is a comment, `event:` or `data:`, and every frame ends with an empty
 * line. Joining the frames' `raw` gives the text again.
 * @throws Error at anything else: what the gateway sends is to be as clean as that
 */
export function framesOf(text: string): SseFrame[] {
  const frames: SseFrame[] = [];
  let raw = '';
  let event: string | undefined;
  let data: string[] = [];
  for (const [line] of text.matchAll(/[^\r\n]*(?:\r\n|\r|\n|$)/g)) {
    raw += line;
    const content = line.replace(/[\r\n]+$/, '');
    if (line !== '' && content === line) throw new Error(`the stream breaks off in the line ${content}`);
    if (content !== '') {
      const [, name, value] = /^(event|data|id|retry|): ?(.*)$/s.exec(content) ?? [];
      if (name === undefined) throw new Error(`no line of a stream: ${content}`);
      if (name === 'event') event = value;
      if (name === 'data') data.push(value ?? '');
    } else if (data.length > 0 || event !== undefined) {
      frames.push({ event, data: data.join('\n'), raw });
      [raw, event, data] = ['', undefined, []];
    }
  }
  if (event !== undefined || data.length > 0) throw new Error(`the last frame has no end: ${raw}`);
  return frames;
}

/** The data of the frames, without the final `[DONE]`. */
export const payloadsOf = <T = Record<string, unknown>>(text: string): T[] =>
  framesOf(text)
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as T);

/** A frame as the server writes it. */
export const frame = (data: unknown, event?: string): SseFrame => {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  const lines = text.split('\n').map((line) => `data: ${line}\n`);
  return { event, data: text, raw: `${event === undefined ? '' : `event: ${event}\n`}${lines.join('')}\n` };
};
