import { join } from 'node:path';
import { chooseFile, type RemoteFile } from './choose.ts';
import { PullError } from './errors.ts';
import { type Hub, listRepository } from './hub.ts';
import { isComplete, PartFile } from './part-file.ts';
import { patient, type RetryOptions, transfer } from './transfer.ts';

export interface PullOptions {
  /** `owner/name`. */
  repo: string;
  /** A file of the repository or a quantisation; without it the best one that the engine reads. */
  file?: string;
  /** A branch, tag or commit; default `main`. */
  revision?: string;
  /** The folder of models: the file goes to `<destination>/<owner>--<name>/<file>`. */
  destination: string;
  /** HF_TOKEN. */
  token?: string;
  /** HF_ENDPOINT; default https://huggingface.co. */
  endpoint?: string;
  /** In bytes; what an earlier run left counts as done. */
  onProgress?: (progress: { file: string; done: number; total: number }) => void;
  signal?: AbortSignal;
  retry?: Partial<RetryOptions>;
}

export interface Pulled {
  path: string;
  /** The file was there before, whole and right. */
  alreadyThere: boolean;
}

/**
 * Downloads a GGUF file from a Hugging Face Hub: resumable, checked, and under its name only when it is whole.
 * A file that is there already, whole and right, is not downloaded again.
 * @throws PullError with a stable code; the signal's reason when aborted (what came is kept for the next run)
 */
export const pull = async (options: PullOptions): Promise<Pulled> => {
  const hub: Hub = {
    endpoint: (options.endpoint || 'https://huggingface.co').replace(/\/+$/, ''),
    repo: checkRepo(options.repo),
    revision: options.revision ?? 'main',
    token: options.token || undefined,
    signal: options.signal ?? new AbortController().signal,
  };
  hub.signal.throwIfAborted();
  const file = chooseFile(await listRepository(hub), options.file);
  const path = join(options.destination, hub.repo.replace('/', '--'), ...safeParts(file));
  const report = (done: number) => options.onProgress?.({ file: file.path, done, total: file.sizeBytes });

  if (await isComplete(path, file)) {
    report(file.sizeBytes);
    return { path, alreadyThere: true };
  }
  const part = await PartFile.open(path, file);
  try {
    report(part.length);
    const retry = { ...patient, ...options.retry };
    await transfer({ hub, file, part, retry, onBytes: () => report(part.length) });
  } catch (error) {
    await part.close();
    throw error;
  }
  await part.finish();
  return { path, alreadyThere: false };
};

const checkRepo = (repo: string): string => {
  if (/^[\w.-]+\/[\w.-]+$/.test(repo) && !repo.includes('..')) return repo;
  throw new PullError(
    'invalid_reference',
    `'${repo}' is no repository; write OWNER/NAME, for example Qwen/Qwen2.5-0.5B-Instruct-GGUF`,
  );
};

/** The server names the file; it must not lead out of its folder. */
const safeParts = ({ path }: RemoteFile): string[] => {
  const parts = path.split('/');
  if (parts.some((part) => part === '' || part === '.' || part === '..' || /[\\:\0]/.test(part))) {
    throw new PullError('server', `the server names a file '${path}', which is no path inside a repository`);
  }
  return parts;
};
