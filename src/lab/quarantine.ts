/**
 * Quarantine: kernels that crashed the device or the process, identified by their program and kept across restarts. While
 * kernels are bound, the file `armed.json` lists them; a clean shutdown deletes it. A start that finds the file knows
 * that the previous process crashed with those kernels bound, and does not bind them again. So a faulty kernel in a
 * saved config cannot keep the host from starting.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { z } from 'zod';
import { fileErrorReason } from './configs/store.ts';
import { LabError } from './types.ts';

const kernelSchema = z.object({
  digest: z.string(),
  /** `programDigest`; the files of earlier versions have none. */
  program: z.string().optional(),
  name: z.string(),
});
/** A kernel, by what identifies it here. */
export interface KernelIdentity {
  readonly digest: string;
  readonly program?: string | undefined;
  readonly name: string;
}
const quarantinedSchema = kernelSchema.extend({ reason: z.string(), since: z.string() });
type Quarantined = z.infer<typeof quarantinedSchema>;

/** Kernels that ran this long without a fault are proven: the first crashes after that do not quarantine them. */
const probationMs = 60_000;
const maxCrashes = 2;

const armedSchema = z.object({
  kernels: z.array(kernelSchema),
  since: z.string(),
  proven: z.boolean(),
  /** Number of process crashes since the kernels were proven. */
  ends: z.number(),
  /** Process that bound them. */
  pid: z.number().optional(),
});
type Armed = z.infer<typeof armedSchema>;

const keyOf = ({ digest, program = digest }: KernelIdentity): string => program;

export class Quarantine {
  readonly #folder: string;
  readonly #list = new Map<string, Quarantined>();
  #armed: Armed | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Serializes writes. */
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Reads the files of earlier processes in `<data dir>/lab`, and quarantines the kernels that were bound when the
   * last process crashed.
   * @param onQuarantined called for each kernel that this call quarantines
   */
  static async open(
    dataDir: string,
    onQuarantined: (name: string, reason: string) => void,
  ): Promise<Quarantine> {
    const quarantine = new Quarantine(join(dataDir, 'lab'));
    for (const one of await readJson(quarantine.#path('quarantine'), quarantinedSchema.array())) {
      quarantine.#list.set(keyOf(one), one);
    }
    const [previous] = await readJson(
      quarantine.#path('armed'),
      armedSchema.transform((one) => [one]),
    );
    // Another host that uses the same folder is running with these kernels.
    if (previous?.pid !== undefined && isProcessRunning(previous.pid)) return quarantine;
    if (previous?.proven && previous.ends < maxCrashes) {
      quarantine.#armed = { ...previous, ends: previous.ends + 1 };
    } else if (previous) {
      const reason = previous.proven
        ? `the host crashed ${previous.ends + 1} times in a row while it was bound`
        : 'the host crashed soon after it was bound';
      for (const { name } of previous.kernels) onQuarantined(name, reason);
      try {
        await quarantine.add(previous.kernels, reason);
        await quarantine.disarm();
      } catch {
        // The files cannot be written. The list in memory holds for this process, and the next one repeats this check.
      }
    }
    return quarantine;
  }

  /** Why a kernel is quarantined; undefined when it is not. Changed comments or white space are the same kernel. */
  reasonFor({ digest, program }: Omit<KernelIdentity, 'name'>): string | undefined {
    return (this.#list.get(program ?? digest) ?? this.#list.get(digest))?.reason;
  }

  async add(kernels: readonly KernelIdentity[], reason: string): Promise<void> {
    for (const { digest, program, name } of kernels) {
      const one = { digest, program, name, reason, since: new Date().toISOString() };
      this.#list.set(keyOf(one), one);
    }
    await this.#write('quarantine', [...this.#list.values()]);
  }

  /** Records on disk that these kernels are bound. Call it before they are bound. */
  async arm(kernels: readonly KernelIdentity[]): Promise<void> {
    clearTimeout(this.#timer);
    const provenDigests = new Set(this.#armed?.proven ? this.#armed.kernels.map(({ digest }) => digest) : []);
    // Proven kernels that are bound again stay proven.
    const areAllProven = kernels.every(({ digest }) => provenDigests.has(digest));
    const armed: Armed = {
      kernels: kernels.map(({ digest, program, name }) => ({ digest, program, name })),
      since: new Date().toISOString(),
      proven: areAllProven && this.#armed !== undefined,
      ends: areAllProven ? (this.#armed?.ends ?? 0) : 0,
      pid: process.pid,
    };
    await this.#write('armed', armed);
    this.#armed = armed;
    this.#timer = setTimeout(() => {
      if (!this.#armed) return;
      this.#armed = { ...this.#armed, proven: true, ends: 0 };
      void this.#write('armed', this.#armed).catch(() => undefined);
    }, probationMs);
    this.#timer.unref();
  }

  /** Deletes the record, when no lab kernel is bound any more or the host shuts down cleanly. */
  async disarm(): Promise<void> {
    clearTimeout(this.#timer);
    this.#armed = undefined;
    const path = this.#path('armed');
    await this.#enqueue(async () => {
      try {
        await rm(path, { force: true });
      } catch (error) {
        // A parent of the path is not a directory, so there is no file to remove.
        if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return;
        throw new LabError('lab_failed', `${path} cannot be removed: ${fileErrorReason(error)}.`);
      }
    });
  }

  #path(name: string): string {
    return join(this.#folder, `${name}.json`);
  }

  #write(name: string, value: unknown): Promise<void> {
    return this.#enqueue(async () => {
      const path = this.#path(name);
      const partial = `${path}.tmp`;
      try {
        await mkdir(this.#folder, { recursive: true, mode: 0o700 });
        await writeFile(partial, `${JSON.stringify(value, undefined, 1)}\n`, { mode: 0o600, flush: true });
        await rename(partial, path);
      } catch (error) {
        await rm(partial, { force: true }).catch(() => undefined);
        throw new LabError('lab_failed', `${path} cannot be written: ${fileErrorReason(error)}.`);
      }
    });
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const result = this.#tail.then(work);
    this.#tail = result.catch(() => undefined);
    return result;
  }
}

/** Whether another process with this id is running. */
function isProcessRunning(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** The parsed contents of a JSON file; empty when the file is absent or does not match the schema. */
async function readJson<Out>(path: string, schema: z.ZodType<readonly Out[]>): Promise<readonly Out[]> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return [];
  }
}
