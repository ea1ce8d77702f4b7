import { Reconnect, textOf } from './reconnect.ts';
import { errorOf, LatheError, type Transport } from './transport.ts';
import type { AgentEvent } from './types.ts';

export interface EventOptions {
  /** The last id that you have; absent: events from now on. */
  readonly after?: number;
  /** Such as `pending`, `task.completed`; absent: all. */
  readonly types?: readonly string[];
  readonly signal?: AbortSignal;
}

/** The host sends something every 15 seconds; a connection without anything for so long is lost. */
const maxSilenceMs = 45_000;

/**
 * The events of the agent plane, without end: each once and in order. A lost connection is restored, however long that takes.
 * @throws LatheError when the host refuses it, `events_gone` where it was away too long; the signal's reason
 */
export async function* readEvents(
  transport: Transport,
  { after, types, signal }: EventOptions,
): AsyncGenerator<AgentEvent, void, undefined> {
  const reconnect = new Reconnect(signal, Number.POSITIVE_INFINITY);
  const query = types === undefined ? '' : `?${new URLSearchParams({ types: types.join(',') })}`;
  for (let last = after; ; ) {
    const silence = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(
        () => silence.abort(new LatheError('unreachable', 'the host is silent')),
        maxSilenceMs,
      );
    };
    try {
      heard();
      const response = await transport.send('GET', `/events${query}`, {
        ...(last === undefined ? {} : { headers: { 'last-event-id': String(last) } }),
        signal: signal ? AbortSignal.any([signal, silence.signal]) : silence.signal,
      });
      for await (const { id, data } of framesOf(response, heard)) {
        reconnect.reset();
        if (id !== undefined) last = id;
        if (data !== undefined) yield data;
      }
      throw new LatheError('unreachable', 'the stream of events ended');
    } catch (error) {
      await reconnect.after(error);
    } finally {
      clearTimeout(timer);
    }
  }
}

async function* framesOf(
  response: Response,
  onText: () => void,
): AsyncGenerator<{ id: number | undefined; data: AgentEvent | undefined }, void, undefined> {
  let text = '';
  for await (const piece of textOf(response)) {
    onText();
    text += piece;
    const frames = text.split('\n\n');
    text = frames.pop() ?? '';
    for (const frame of frames) {
      const fields = new Map(
        frame.split('\n').map((line) => {
          const [name = '', ...value] = line.split(': ');
          return [name, value.join(': ')] as const;
        }),
      );
      const [id, data] = [fields.get('id'), fields.get('data')];
      if (fields.get('event') === 'error') throw toError(data ?? '');
      yield {
        id: id === undefined ? undefined : Number(id),
        data: data === undefined ? undefined : (JSON.parse(data) as AgentEvent),
      };
    }
  }
}

function toError(text: string): LatheError {
  const { code = 'error', message = 'the host failed' } = errorOf(text) ?? {};
  return new LatheError(code, message, { status: code === 'events_gone' ? 410 : 503 });
}
