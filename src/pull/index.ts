import { join } from 'node:path';
import { isFileName } from '../engine/index.ts';
import type { AttemptOptions } from '../platform/attempts.ts';
import { isPortableName } from '../words/portable-name.ts';
import { chooseModel, type RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import { type Hub, hubAt, listRepository } from './hub.ts';
import { checkSpace, isComplete, missingBytes, PartFile } from './part-file.ts';
import { recordFile } from './record.ts';
import { parseReference } from './reference.ts';
import { transfer, usualRetry } from './transfer.ts';

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
  part: { digest: string; done: number; total: number };
}

export interface Pulled {
  /** Path to serve: a GGUF file, the first part of a split one, or a model folder. */
  path: string;
  /** Whether all files were present before, with matching checksums. */
  alreadyThere: boolean;
}

/**
 * Downloads a model from a Hugging Face Hub: a GGUF file, all parts of a split one, or a folder. Downloads resume after
 * an interruption and are verified by checksum. A file gets its name only when it is complete. Files that are present
 * with a matching checksum are not downloaded again.
 * @throws PullError with a stable code; the signal's reason when aborted (received bytes are kept for the next run)
 */
export const pull = async (options: PullOptions): Promise<Pulled> => {
  const { repo, revision } = options;
  if (parseReference(repo)?.repo !== repo) {
    throw new PullError(
      'invalid_reference',
      `'${repo}' is not a repository: expected OWNER/NAME, for example Qwen/Qwen2.5-0.5B-Instruct-GGUF`,
    );
  }
  const reference = { repo, ...(revision === undefined ? {} : { revision }) };
  const retry = { ...usualRetry, ...options.retry, onNotice: options.onNotice };
  const hub = hubAt(options, reference, { ...retry, signal: options.signal });
  hub.signal.throwIfAborted();
  const { entry, files } = chooseModel(await listRepository(hub), options.file);
  const folder = join(options.destination, repo.replace('/', '--'));
  const places = files.map((file) => ({ file, path: join(folder, ...safeParts(file)) }));

  const total = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  let before = 0;
  const reportOn = (file: RemoteFile) => (done: number) =>
    options.onProgress?.({
      file: file.path,
      done: before + done,
      total,
      part: { digest: `${file.checksum.kind}:${file.checksum.hex}`, done, total: file.sizeBytes },
    });
  const missing: typeof places = [];
  for (const place of places) {
    hub.signal.throwIfAborted();
    if (await isComplete(place.path, place.file)) {
      await recordFile(folder, reference, place.file);
      reportOn(place.file)(place.file.sizeBytes);
      before += place.file.sizeBytes;
    } else missing.push(place);
  }
  await refuseFullDisk(folder, missing);
  for (const { file, path } of missing) {
    await fetchFile({ hub, file, path, retry, report: reportOn(file) });
    await recordFile(folder, reference, file);
    before += file.sizeBytes;
  }
  const path = entry === undefined ? folder : join(folder, ...entry.split('/'));
  return { path, alreadyThere: missing.length === 0 };
};

/** Checks the disk space for all files before the first one is downloaded. */
const refuseFullDisk = async (
  folder: string,
  missing: readonly { file: RemoteFile; path: string }[],
): Promise<void> => {
  let needed = 0;
  for (const { file, path } of missing) needed += await missingBytes(path, file);
  if (needed > 0) await checkSpace(folder, needed);
};

const fetchFile = async (job: {
  hub: Hub;
  file: RemoteFile;
  path: string;
  retry: AttemptOptions;
  report: (done: number) => void;
}): Promise<void> => {
  const { hub, file, path, retry, report } = job;
  const part = await PartFile.open(path, file);
  try {
    report(part.length);
    await transfer({ hub, file, part, retry, onBytes: () => report(part.length) });
  } catch (error) {
    await part.close();
    throw error;
  }
  await part.finish();
};

/** Splits a path from the server. It must not leave its folder or, by a colon, name another drive on Windows. */
const safeParts = ({ path }: RemoteFile): string[] => {
  const parts = path.split('/');
  if (isFileName(path) && parts.every(isPortableName)) return parts;
  throw new PullError(
    'server',
    `the server lists a file '${path}', which is not a valid path inside a repository on every operating system`,
  );
};
