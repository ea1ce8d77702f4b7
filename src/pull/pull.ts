import { join } from 'node:path';
import { isSafePath } from '../engine/index.ts';
import type { AttemptOptions } from '../platform/attempts.ts';
import { isPortableName } from '../words/portable-name.ts';
import { chooseModel, type RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import { type HubRepository, createHub, listRepository } from './hub.ts';
import { assertFreeSpace, isComplete, missingBytes, PartFile } from './part-file.ts';
import { recordFile } from './download-record.ts';
import { parseReference } from './reference.ts';
import { downloadRest, defaultRetry } from './transfer.ts';

export interface PullOptions {
  /** `owner/name`. */
  repo: string;
  /** File of the repository or quantization. Default: the most preferred one that the engine reads. */
  file?: string;
  /** Branch, tag or commit; default `main`. */
  revision?: string;
  /** The models folder: files are written to `<destination>/<owner>--<name>/<path in the repository>`. */
  destination: string;
  /** HF_TOKEN. */
  token?: string;
  /** HF_ENDPOINT; default https://huggingface.co. */
  endpoint?: string;
  /** Called with the progress in bytes of all files together. Bytes of an earlier run count as done. */
  onProgress?: (progress: PullProgress) => void;
  signal?: AbortSignal;
  /** Messages for the waiting user: a server that sends nothing, another attempt. */
  onNotice?: (message: string) => void;
  retry?: Partial<AttemptOptions>;
}

export interface PullProgress {
  file: string;
  done: number;
  total: number;
  /** Progress of `file` alone, with its checksum as `sha256:<hex>` or `git-sha1:<hex>`. */
  part: { digest: string; doneBytes: number; totalBytes: number };
}

export interface PullResult {
  /** Path to serve: a GGUF file, the first part of a split one, or a model folder. */
  path: string;
  /** Whether all files were present before, with matching checksums. */
  alreadyPresent: boolean;
}

/**
 * Downloads a model from a Hugging Face Hub: a GGUF file, all parts of a split one, or a folder. Downloads resume after
 * an interruption and are verified by checksum. A file gets its name only when it is complete. Files that are present
 * with a matching checksum are not downloaded again.
 * @throws PullError with a stable code; the signal's reason when aborted (received bytes are kept for the next run)
 */
export const pull = async (options: PullOptions): Promise<PullResult> => {
  const { repo, revision } = options;
  if (parseReference(repo)?.repo !== repo) {
    throw new PullError(
      'invalid_reference',
      `'${repo}' is not a repository: expected OWNER/NAME, for example Qwen/Qwen2.5-0.5B-Instruct-GGUF`,
    );
  }
  const reference = { repo, ...(revision === undefined ? {} : { revision }) };
  const retry = { ...defaultRetry, ...options.retry, onNotice: options.onNotice };
  const hub = createHub(options, reference, { ...retry, signal: options.signal });
  hub.signal.throwIfAborted();
  const { entry, files } = chooseModel(await listRepository(hub), options.file);
  const folder = join(options.destination, repo.replace('/', '--'));
  const targets = files.map((file) => ({ file, path: join(folder, ...safePathSegments(file)) }));

  const total = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let completedBytes = 0;
  const progressReporter = (file: RemoteFile) => (done: number) =>
    options.onProgress?.({
      file: file.path,
      done: completedBytes + done,
      total,
      part: {
        digest: `${file.checksum.kind}:${file.checksum.hex}`,
        doneBytes: done,
        totalBytes: file.sizeBytes,
      },
    });
  const missing: typeof targets = [];
  for (const target of targets) {
    hub.signal.throwIfAborted();
    if (await isComplete(target.path, target.file)) {
      await recordFile(folder, reference, target.file);
      progressReporter(target.file)(target.file.sizeBytes);
      completedBytes += target.file.sizeBytes;
    } else missing.push(target);
  }
  await assertDiskSpace(folder, missing);
  for (const { file, path } of missing) {
    await downloadFile({ hub, file, path, retry, report: progressReporter(file) });
    await recordFile(folder, reference, file);
    completedBytes += file.sizeBytes;
  }
  const path = entry === undefined ? folder : join(folder, ...entry.split('/'));
  return { path, alreadyPresent: missing.length === 0 };
};

/** Checks the disk space for all files before the first one is downloaded. */
const assertDiskSpace = async (
  folder: string,
  missing: readonly { file: RemoteFile; path: string }[],
): Promise<void> => {
  let needed = 0;
  for (const { file, path } of missing) needed += await missingBytes(path, file);
  if (needed > 0) await assertFreeSpace(folder, needed);
};

const downloadFile = async (job: {
  hub: HubRepository;
  file: RemoteFile;
  path: string;
  retry: AttemptOptions;
  report: (done: number) => void;
}): Promise<void> => {
  const { hub, file, path, retry, report } = job;
  const part = await PartFile.open(path, file);
  try {
    report(part.length);
    await downloadRest({ hub, file, part, retry, onBytes: () => report(part.length) });
  } catch (error) {
    await part.close();
    throw error;
  }
  await part.finish();
};

/** Splits a path from the server. It must not leave its folder or, by a colon, name another drive on Windows. */
const safePathSegments = ({ path }: RemoteFile): string[] => {
  const parts = path.split('/');
  if (isSafePath(path) && parts.every(isPortableName)) return parts;
  throw new PullError(
    'server',
    `the server lists a file '${path}', which is not a valid path inside a repository on every operating system`,
  );
};
