import { systemCode } from '../../util/system-code.ts';
import { AgentError } from '../errors.ts';
import type { ToolOutput } from '../tool.ts';

/** A refusal of a tool. The message is sent to the model and says what would work. */
export class Refusal extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Refusal';
  }
}

export const okOutput = (output: string, truncated = false): ToolOutput => ({ ok: true, output, truncated });
export const refusedOutput = (output: string): ToolOutput => ({ ok: false, output, truncated: false });

/** Converts a thrown refusal to an output for the model; other errors are rethrown. */
export async function withRefusalAsOutput<Answer>(run: () => Promise<Answer>): Promise<Answer | ToolOutput> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof Refusal) return refusedOutput(error.message);
    throw error;
  }
}

/** The base of a change differs from what the person saw. */
export const baseMovedError = (message: string, options?: ErrorOptions): AgentError =>
  new AgentError('conflict', 'base_moved', message, options);

const errorReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  EACCES: 'the host may not open it',
  EPERM: 'the host may not do that',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'it is a folder',
  ELOOP: 'its links go in circles',
  ENAMETOOLONG: 'a name in it is too long',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'it lies on a read-only file system',
  ENOTEMPTY: 'the folder is not empty',
  EXDEV: 'it lies on another file system',
  EBUSY: 'it is in use',
  EAGAIN: 'it has nothing to read at the moment',
};

/** The code of a system error; undefined for other errors, including AgentError. */
export const systemErrorCode = (error: unknown): string | undefined =>
  error instanceof AgentError ? undefined : systemCode(error);

/** Converts a file system error to a refusal; returns other errors unchanged. */
export function toFileRefusal(error: unknown, printable: string): unknown {
  const code = systemErrorCode(error);
  if (code === undefined || !/^E[A-Z0-9]+$/.test(code)) return error;
  return new Refusal(`${printable}: ${errorReasons[code] ?? `the file system says ${code}`}.`, {
    cause: error,
  });
}

/** Escapes line ends, escape sequences and bidirectional marks, which could falsify a line. */
export const escapeLine = (text: string): string =>
  text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (mark) => `\\u{${(mark.codePointAt(0) ?? 0).toString(16)}}`,
  );
