import type { PullListener, PullProgress } from '../model-store.ts';
import type { HttpError } from '../../http/error.ts';
import { ndjsonType, streamResponse } from '../../http/stream.ts';
import { ollamaEnvelope } from '../../wires/ollama/error.ts';
import { jsonLine } from '../../wires/ollama/writer.ts';

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
  const updates = new Map<string, PullProgress>();
  let notice: string | undefined;
  let wakeUp = Promise.withResolvers<void>();
  let outcome: { readonly error?: unknown } | undefined;
  const finish = (result: { readonly error?: unknown }) => {
    outcome = result;
    wakeUp.resolve();
  };
  const onProgress = (progress: PullProgress) => {
    updates.set(progress.file, progress);
    wakeUp.resolve();
  };
  const onNotice = (message: string) => {
    notice = message;
    wakeUp.resolve();
  };
  pull({ onProgress, onNotice }).then(
    () => finish({}),
    (error: unknown) => finish({ error }),
  );
  for (;;) {
    await wakeUp.promise;
    wakeUp = Promise.withResolvers();
    const latest = [...updates.values()];
    const latestNotice = notice;
    updates.clear();
    notice = undefined;
    for (const { digest, doneBytes: done, totalBytes: total } of latest)
      yield { status: toStatus(digest), digest, total, completed: done };
    if (latestNotice !== undefined) yield { status: latestNotice };
    if (!outcome) continue;
    if ('error' in outcome) throw outcome.error;
    break;
  }
  yield { status: 'verifying sha256 digest' };
  yield { status: 'writing manifest' };
  yield { status: 'success' };
}

/** `pulling 6a0746a1ec1a` */
const toStatus = (digest: string): string => `pulling ${(digest.split(':').at(-1) ?? '').slice(0, 12)}`;

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
    for await (const progressLine of lines) last = progressLine;
    return Response.json(last);
  }
  return await streamResponse(toJsonLines(lines), {
    contentType: ndjsonType,
    failureFrame: (error) => jsonLine(ollamaEnvelope(asHttpError(error))),
  });
}

async function* toJsonLines(
  lines: AsyncGenerator<ProgressLine, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const progressLine of lines) yield jsonLine(progressLine);
}
