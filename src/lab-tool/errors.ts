interface Violation {
  /** Dotted path of the member. */
  readonly path: string;
  readonly message: string;
}

/** The host cannot be asked, or it refused. Exit code 3. */
export class HostError extends Error {
  /** `unreachable`, `not_a_host`, or the code of the host's own refusal. */
  readonly code: string;
  readonly status: number | undefined;
  readonly violations: readonly Violation[];

  constructor(code: string, message: string, status?: number, violations: readonly Violation[] = []) {
    super(message);
    this.name = 'HostError';
    this.code = code;
    this.status = status;
    this.violations = violations;
  }

  /** It may answer later without anybody changing the request. */
  get passing(): boolean {
    return this.code === 'unreachable' || this.code === 'not_a_host' || this.status === 503;
  }
}

/** A file that cannot be read, or is not what it should be. Exit code 2, as for wrong usage. */
export class FileError extends Error {
  constructor(path: string, why: string) {
    super(`${path}: ${why}`);
    this.name = 'FileError';
  }
}

export const messageOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown);

/** `ENOENT` and the like, from Node's own errors. */
export const systemCode = (thrown: unknown): string | undefined =>
  thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : undefined;

const fileFaults: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a directory; name the file in it',
  EACCES: "not allowed to read it; check the file's owner and mode",
};

/** What a failed file operation means. */
export const fileError = (path: string, thrown: unknown): FileError =>
  new FileError(path, fileFaults[systemCode(thrown) ?? ''] ?? messageOf(thrown));
