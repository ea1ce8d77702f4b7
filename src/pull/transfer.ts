import { setTimeout as sleep } from 'node:timers/promises';
import type { RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import { explainStatus, fileUrl, type Hub, hubHeaders } from './hub.ts';
import type { PartFile } from './part-file.ts';

export interface RetryOptions {
  /** Attempts in a row that bring nothing new before we give up. */
  attempts: number;
  /** Wait before the second attempt; doubles with each. */
  retryDelayMs: number;
  /** A connection that brings nothing for so long is cut and tried again. */
  idleMs: number;
}

export const patient: RetryOptions = { attempts: 5, retryDelayMs: 500, idleMs: 30_000 };

/** Answers that may go away by themselves. */
const passing = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A failure that another attempt may mend. */
class Interruption extends Error {}

interface Transfer {
  readonly hub: Hub;
  readonly file: RemoteFile;
  readonly part: PartFile;
  readonly retry: RetryOptions;
  readonly onBytes: () => void;
}

/**
 * Fetches the rest of `file` into `part`, going on by range requests over cut connections and busy servers.
 * @throws PullError `interrupted` when nothing more comes; the part keeps what came
 */
export const transfer = async (job: Transfer): Promise<void> => {
  const { hub, file, part, retry } = job;
  let farthest = part.length;
  for (let failures = 0; part.length < file.sizeBytes; ) {
    try {
      await fetchRest(job);
    } catch (error) {
      hub.signal.throwIfAborted();
      if (!(error instanceof Interruption)) throw error;
      failures = part.length > farthest ? 1 : failures + 1;
      farthest = Math.max(farthest, part.length);
      if (failures >= retry.attempts) {
        throw new PullError(
          'interrupted',
          `${file.path}: stopped at ${part.length} of ${file.sizeBytes} bytes (${error.message}, ${failures} attempts); run the command again, it goes on from there`,
        );
      }
      await sleep(retry.retryDelayMs * 2 ** (failures - 1), undefined, { signal: hub.signal });
    }
  }
};

const fetchRest = async (job: Transfer): Promise<void> => {
  const { hub, file, part, retry, onBytes } = job;
  const idle = new AbortController();
  const timer = setTimeout(
    () => idle.abort(new Error(`nothing came for ${retry.idleMs / 1000} s`)),
    retry.idleMs,
  );
  try {
    const response = await interruptible(() =>
      fetch(fileUrl(hub, file.path), {
        headers: { ...hubHeaders(hub), range: `bytes=${part.length}-`, 'accept-encoding': 'identity' },
        signal: AbortSignal.any([hub.signal, idle.signal]),
      }),
    );
    await checkAnswer(job, response);
    const reader = response.body?.getReader();
    for (;;) {
      const chunk = await interruptible(async () => reader?.read());
      if (!chunk?.value) break;
      timer.refresh();
      await part.append(chunk.value);
      onBytes();
    }
    if (part.length < file.sizeBytes) throw new Interruption('the connection was cut');
  } finally {
    clearTimeout(timer);
    // Drops what was not read, after a refusal.
    idle.abort();
  }
};

const checkAnswer = async ({ hub, file, part }: Transfer, response: Response): Promise<void> => {
  const { status, headers } = response;
  if (passing.has(status)) throw new Interruption(`HTTP ${status}`);
  if (status === 206) {
    const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '') ?? [];
    if (Number(start) !== part.length || (total !== '*' && Number(total) !== file.sizeBytes)) {
      throw new PullError(
        'server',
        `${file.path}: the server answers range '${headers.get('content-range')}', not the one asked for; try again later`,
      );
    }
    return;
  }
  if (status !== 200) throw explainStatus(hub, status);
  // The server does not know ranges and sends everything: take all of it.
  const length = headers.get('content-length');
  if (length !== null && Number(length) !== file.sizeBytes) {
    throw new PullError(
      'server',
      `${file.path}: the server sends ${length} bytes instead of the file's ${file.sizeBytes}; try again later`,
    );
  }
  if (part.length > 0) await part.restart();
};

/** Network errors, and ours for an idle connection, become interruptions. */
const interruptible = async <Result>(step: () => Promise<Result>): Promise<Result> => {
  try {
    return await step();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    throw new Interruption(cause instanceof Error ? cause.message : String(cause));
  }
};
