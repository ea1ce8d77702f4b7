import { formatBytes } from '../engine/index.ts';
import { type AttemptOptions, Attempts } from '../platform/attempts.ts';
import { asInterruption, Interruption, transientStatuses } from '../platform/interruption.ts';
import { sleep } from '../util/sleep.ts';
import type { RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import { explainStatus, fileUrl, type HubRepository, hubHeaders } from './hub.ts';
import type { PartFile } from './part-file.ts';

export const defaultRetry = { attempts: 5, retryDelayMs: 500, idleMs: 30_000 } as const;

interface Transfer {
  readonly hub: HubRepository;
  readonly file: RemoteFile;
  readonly part: PartFile;
  readonly retry: AttemptOptions;
  readonly onBytes: () => void;
}

/**
 * Downloads the rest of `file` into `part`. After a cut connection or a busy server it resumes with range requests.
 * @throws PullError `interrupted` after the last attempt; the received bytes stay in the part
 */
export const downloadRest = async (job: Transfer): Promise<void> => {
  const { hub, file, part, retry } = job;
  const done = () => `${formatBytes(part.length)} of ${formatBytes(file.sizeBytes)}`;
  const attempts = new Attempts(() => `${file.path}, ${done()}`, retry);
  let furthestBytes = part.length;
  while (part.length < file.sizeBytes) {
    try {
      await fetchRest(job, attempts);
    } catch (error) {
      hub.signal.throwIfAborted();
      if (!(error instanceof Interruption)) throw error;
      const waitMs = attempts.recordFailure(error, part.length - furthestBytes);
      furthestBytes = Math.max(furthestBytes, part.length);
      if (waitMs === undefined) {
        throw new PullError(
          'interrupted',
          `${file.path}: stopped at ${part.length} of ${file.sizeBytes} bytes (${error.message}, ${attempts.failures} attempts); run the command again to resume`,
        );
      }
      await sleep(waitMs, hub.signal);
    }
  }
};

const fetchRest = async (job: Transfer, attempts: Attempts): Promise<void> => {
  const { hub, file, part, onBytes } = job;
  const { signal, reset, abort } = attempts.startAttempt();
  try {
    const response = await withInterruption(() =>
      fetch(fileUrl(hub, file.path), {
        headers: { ...hubHeaders(hub), range: `bytes=${part.length}-`, 'accept-encoding': 'identity' },
        signal: AbortSignal.any([hub.signal, signal]),
      }),
    );
    await checkResponse(job, response);
    const reader = response.body?.getReader();
    for (;;) {
      const chunk = await withInterruption(async () => reader?.read());
      if (!chunk?.value) break;
      reset();
      await part.append(chunk.value);
      onBytes();
    }
    if (part.length < file.sizeBytes) throw new Interruption('the connection was cut');
  } finally {
    // Also cancels an unread response body, after an error status.
    abort();
  }
};

const checkResponse = async ({ hub, file, part }: Transfer, response: Response): Promise<void> => {
  const { status, headers } = response;
  if (transientStatuses.has(status)) throw new Interruption(`HTTP ${status}`);
  if (status === 206) {
    const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '') ?? [];
    if (Number(start) !== part.length || (total !== '*' && Number(total) !== file.sizeBytes)) {
      throw new PullError(
        'server',
        `${file.path}: the server sent the range '${headers.get('content-range')}', which was not requested; try again later`,
      );
    }
    return;
  }
  if (status !== 200) throw explainStatus(hub, status);
  // The server does not support ranges and sends the whole file: start from zero.
  const length = headers.get('content-length');
  if (length !== null && Number(length) !== file.sizeBytes) {
    throw new PullError(
      'server',
      `${file.path}: the server sends ${length} bytes, expected ${file.sizeBytes}; try again later`,
    );
  }
  if (part.length > 0) await part.restart();
};

/** Runs a step and converts its network errors to `Interruption`. */
const withInterruption = async <Result>(step: () => Promise<Result>): Promise<Result> => {
  try {
    return await step();
  } catch (error) {
    throw asInterruption(error);
  }
};
