import { ClientGone, type Problem } from '../problem.ts';
import { openaiEnvelope } from './envelope.ts';

/** How long the status line waits for the first chunk, so that a refusal is still an HTTP status. */
const patienceMs = 1000;

/**
 * Server-sent events of a generator of chunks, one `data:` line each, then `[DONE]`. An error before the first chunk is
 * thrown; a later one is sent as a frame with the error envelope and ends the stream without `[DONE]`. A chunk is made
 * only when the connection has taken the one before, so a slow reader holds nothing in memory.
 */
export async function eventStream(
  chunks: AsyncGenerator<unknown, void, undefined>,
  asProblem: (error: unknown) => Problem,
): Promise<Response> {
  let next: Promise<IteratorResult<unknown>> | undefined = chunks.next();
  await withPatience(next);
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const result = await (next ?? chunks.next());
          next = undefined;
          controller.enqueue(
            encoder.encode(`data: ${result.done ? '[DONE]' : JSON.stringify(result.value)}\n\n`),
          );
          if (result.done) controller.close();
        } catch (error) {
          if (!(error instanceof ClientGone)) {
            controller.enqueue(
              encoder.encode(`data: ${JSON.stringify(openaiEnvelope(asProblem(error)))}\n\n`),
            );
          }
          controller.close();
        }
      },
      async cancel() {
        await chunks.return();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
    },
  });
}

async function withPatience(first: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  try {
    await Promise.race([first, patience]);
  } finally {
    clearTimeout(timer);
    first.catch(() => undefined);
  }
}
