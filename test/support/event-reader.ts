import { agentEvent, type AgentEvent } from '../../src/agent/shapes/agent-event.ts';

/** A frame of the feed as it came: an event, or only an id. */
export interface FeedFrame {
  readonly id: number;
  readonly event?: AgentEvent;
}

/** Reads frames of a response until `enough` holds, the stream ends or the connection is lost. */
export async function readFeed(
  response: Response,
  enough: (frames: readonly FeedFrame[]) => boolean,
): Promise<FeedFrame[]> {
  const frames: FeedFrame[] = [];
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!enough(frames)) {
    const chunk = await reader?.read().catch(() => undefined);
    if (!chunk || chunk.done) break;
    text += chunk.value;
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part)?.[1];
      const id = Number(/^id: (\d+)$/m.exec(part)?.[1]);
      if (data === undefined) frames.push({ id });
      else {
        const event = agentEvent.parse(JSON.parse(data));
        // Nothing that the schema would drop, and the same id.
        if (JSON.stringify(Object.keys(event.data).toSorted()) !== keysOf(data) || event.id !== id)
          throw new Error(`not as published: ${part}`);
        frames.push({ id, event });
      }
    }
  }
  await reader?.cancel().catch(() => undefined);
  return frames;
}

const keysOf = (text: string): string =>
  JSON.stringify(Object.keys((JSON.parse(text) as { data: object }).data).toSorted());

export const eventsOf = (frames: readonly FeedFrame[]): AgentEvent[] =>
  frames.flatMap(({ event }) => (event ? [event] : []));
