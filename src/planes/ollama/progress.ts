import type { PullListener, PullProgress } from '../model-store.ts';
import type { HttpError } from '../../http/error.ts';
import { jsonLines, streamResponse } from '../../http/stream.ts';
import { ollamaEnvelope } from '../../wires/ollama/error.ts';
import { line } from '../../wires/ollama/writer.ts';

/** A progress line of a long operation. */
export interface ProgressLine {
  readonly status: string;
  readonly digest?: string;
  readonly total?: number;
  readonly completed?: number;
}

/**
 * Yields the progress lines of a download: only the latest state of each file and the latest notice, so that the number
 * of lines is bounded by the speed of the reader.
 */
export async function* pullLines(
  pull: (listener: PullListener) => Promise<unknown>,
): AsyncGenerator<ProgressLine, void, undefined> {
  yield { status: 'pulling manifest' };
  const news = new Map<string, PullProgress>();
  let notice: string | undefined;
  let wake = Promise.withResolvers<void>();
  let outcome: { readonly error?: unknown } | undefined;
  const end = (how: { readonly error?: unknown }) => {
    outcome = how;
    wake.resolve();
  };
  const onProgress = (progress: PullProgress) => {
    news.set(progress.file, progress);
    wake.resolve();
  };
  const onNotice = (message: string) => {
    notice = message;
    wake.resolve();
  };
  pull({ onProgress, onNotice }).then(
    () => end({}),
    (error: unknown) => end({ error }),
  );
  for (;;) {
    await wake.promise;
    wake = Promise.withResolvers();
    const latest = [...news.values()];
    const said = notice;
    news.clear();
    notice = undefined;
    for (const { digest, done, total } of latest)
      yield { status: nameOf(digest), digest, total, completed: done };
    if (said !== undefined) yield { status: said };
    if (!outcome) continue;
    if ('error' in outcome) throw outcome.error;
    break;
  }
  yield { status: 'verifying sha256 digest' };
  yield { status: 'writing manifest' };
  yield { status: 'success' };
}

/** `pulling 6a0746a1ec1a` */
const nameOf = (digest: string): string => `pulling ${(digest.split(':').at(-1) ?? '').slice(0, 12)}`;

/**
 * Answers with lines of JSON while a long operation runs, or with the last line only. A failure is written as a last
 * line with the error.
 */
export async function answerProgress(
  lines: AsyncGenerator<ProgressLine, void, undefined>,
  stream: boolean | null | undefined,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> {
  if (stream === false) {
    let last: ProgressLine | undefined;
    for await (const each of lines) last = each;
    return Response.json(last);
  }
  return await streamResponse(written(lines), {
    contentType: jsonLines,
    failure: (error) => line(ollamaEnvelope(asHttpError(error))),
  });
}

async function* written(
  lines: AsyncGenerator<ProgressLine, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const each of lines) yield line(each);
}
