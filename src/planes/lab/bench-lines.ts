import type { BenchProgress, BenchResult } from '../../lab/types.ts';
import { hostEnvelope, type HttpError } from '../../http/error.ts';
import { jsonLines, streamResponse } from '../../http/stream.ts';

/** Streams a benchmark: a line for each stage and round, and the result as the last line. */
export const benchLines = (
  bench: (onProgress: (progress: BenchProgress) => void) => Promise<BenchResult>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> =>
  streamResponse(linesOf(bench), {
    contentType: jsonLines,
    failure: (error) => line(hostEnvelope(asHttpError(error))),
  });

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

/** The benchmark does not wait for the client: unread lines, at most one per round, are buffered. */
async function* linesOf(
  bench: (onProgress: (progress: BenchProgress) => void) => Promise<BenchResult>,
): AsyncGenerator<string, void, undefined> {
  const news: BenchProgress[] = [];
  let isOver = false;
  let wake = Promise.withResolvers<void>();
  const outcome = bench((progress) => {
    news.push(progress);
    wake.resolve();
  });
  const end = () => {
    isOver = true;
    wake.resolve();
  };
  outcome.then(end, end);
  for (;;) {
    await wake.promise;
    wake = Promise.withResolvers();
    for (const progress of news.splice(0)) yield line(progress);
    if (isOver && news.length === 0) break;
  }
  yield line({ stage: 'done', result: await outcome });
}
