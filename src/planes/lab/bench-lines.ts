import { z } from 'zod';
import { hostEnvelope, type HttpError } from '../../http/error.ts';
import { ndjsonType, streamResponse } from '../../http/stream.ts';
import { type BenchProgress, type BenchResult, benchProgress, benchResult } from '../../lab/types.ts';
import { hostError } from '../error-schema.ts';

/** A line of a streamed benchmark. */
export const benchLine = z
  .union([
    benchProgress,
    z.object({ stage: z.literal('done'), result: benchResult }).describe('The last line.'),
    hostError.describe('The last line after a failure.'),
  ])
  .meta({ id: 'BenchLine' });

/** Streams a benchmark: a line for each stage and round, and the result as the last line. */
export const streamBench = (
  bench: (onProgress: (progress: BenchProgress) => void) => Promise<BenchResult>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> =>
  streamResponse(toLines(bench), {
    contentType: ndjsonType,
    failureFrame: (error) => jsonLine(hostEnvelope(asHttpError(error))),
  });

const jsonLine = (value: unknown): string => `${JSON.stringify(value)}\n`;

/** The benchmark does not wait for the client: unread lines, at most one per round, are buffered. */
async function* toLines(
  bench: (onProgress: (progress: BenchProgress) => void) => Promise<BenchResult>,
): AsyncGenerator<string, void, undefined> {
  const pending: BenchProgress[] = [];
  let isOver = false;
  let wakeUp = Promise.withResolvers<void>();
  const outcome = bench((progress) => {
    pending.push(progress);
    wakeUp.resolve();
  });
  const finish = () => {
    isOver = true;
    wakeUp.resolve();
  };
  outcome.then(finish, finish);
  for (;;) {
    await wakeUp.promise;
    wakeUp = Promise.withResolvers();
    for (const progress of pending.splice(0)) yield jsonLine(progress);
    if (isOver && pending.length === 0) break;
  }
  yield jsonLine({ stage: 'done', result: await outcome });
}
