import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';

/** A file that cannot be read or has invalid content. Exit code 2, as for wrong usage. */
export class FileError extends Error {
  constructor(path: string, why: string) {
    super(`${path}: ${why}`);
    this.name = 'FileError';
  }
}

const fileErrorCauses: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};

/** Explains a failed file operation. */
export const toFileError = (path: string, thrown: unknown): FileError =>
  new FileError(path, fileErrorCauses[systemCode(thrown) ?? ''] ?? errorMessage(thrown));
