import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { link, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';
import { systemCode } from '../../util/system-code.ts';

const nano = z
  .string()
  .regex(/^-?\d+$/)
  .transform(BigInt);
/** A line of an archive: the columns of a request, and the entries that settled it. Amounts are decimal text. */
const archiveLine = z.object({
  request: z.looseObject({
    id: z.string(),
    key_id: z.string(),
    account_id: z.string(),
    ended: z.string(),
    ended_at: z.string(),
    charged: nano,
  }),
  entries: z.array(z.object({ account_id: z.string(), amount: nano })),
});
export type ArchivedRequest = z.output<typeof archiveLine>;

/** Integers of the database as text: JSON has no 64-bit integers. */
const toJson = (value: object): string =>
  JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? String(member) : member));

/** Another file has the name of an archive. */
export class ArchiveExistsError extends Error {}

/**
 * Writes lines to a compressed file, which has its name only when it is whole and on the disk. A file that is there already
 * stays: one with other bytes is that of another database, or of a call at the same time.
 * @returns the SHA-256 of the file, hex
 * @throws ArchiveExistsError when another file has the name
 */
export async function writeArchive(path: string, lines: AsyncIterable<object>): Promise<string> {
  const partial = `${path}.${randomUUID()}.part`;
  try {
    return await writeNew(path, partial, lines);
  } finally {
    await rm(partial, { force: true });
  }
}

async function writeNew(path: string, partial: string, lines: AsyncIterable<object>): Promise<string> {
  const text = async function* () {
    for await (const line of lines) yield `${toJson(line)}\n`;
  };
  await pipeline(
    Readable.from(text()),
    createGzip(),
    createWriteStream(partial, { mode: 0o600, flush: true }),
  );
  const digest = await digestOf(partial);
  try {
    // Unlike a rename, this does not replace a file.
    await link(partial, path);
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    if ((await digestOf(path)) !== digest) throw new ArchiveExistsError(path);
  }
  // The name is on the disk, too.
  const folder = await open(dirname(path));
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
  return digest;
}

/** SHA-256 of a file, hex. */
export async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** Reads the requests of an archive. @throws Error when the file is damaged */
export async function* readArchive(path: string): AsyncGenerator<ArchivedRequest> {
  const unzipped = createReadStream(path).pipe(createGunzip());
  for await (const line of createInterface({ input: unzipped, crlfDelay: Number.POSITIVE_INFINITY }))
    yield archiveLine.parse(JSON.parse(line));
}
