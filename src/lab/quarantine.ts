/**
 * Kernels that took the device or the process down: remembered by content across starts. While kernels are bound, a
 * file says so; it is gone after an orderly end. A start that finds one knows that the process before it died with
 * those kernels bound, and does not bind them again, so that a bad kernel in a saved config cannot keep the host from
 * starting.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { z } from 'zod';
import { messageOf } from './configs/store.ts';
import { LabError } from './types.ts';

const kernelSchema = z.object({ digest: z.string(), name: z.string() });
const quarantinedSchema = kernelSchema.extend({ reason: z.string(), since: z.string() });
type Quarantined = z.infer<typeof quarantinedSchema>;

/** Kernels that ran for so long without a fault are not blamed for the first ends of the process after that. */
const provenMs = 60_000;
const toleratedEnds = 2;

const armedSchema = z.object({
  kernels: z.array(kernelSchema),
  since: z.string(),
  proven: z.boolean(),
  /** Disorderly ends of the process since they were proven. */
  ends: z.number(),
  /** Of the process that bound them. */
  pid: z.number().optional(),
});
type Armed = z.infer<typeof armedSchema>;

export class Quarantine {
  readonly #folder: string;
  readonly #list = new Map<string, Quarantined>();
  #armed: Armed | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Writes follow one another. */
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Reads what earlier processes left in `<data dir>/lab`, and blames the kernels that were bound when the last one
   * died.
   * @param onBlamed told of each kernel that is quarantined now
   */
  static async open(dataDir: string, onBlamed: (name: string, reason: string) => void): Promise<Quarantine> {
    const quarantine = new Quarantine(join(dataDir, 'lab'));
    for (const one of await readJson(quarantine.#path('quarantine'), quarantinedSchema.array())) {
      quarantine.#list.set(one.digest, one);
    }
    const [left] = await readJson(
      quarantine.#path('armed'),
      armedSchema.transform((one) => [one]),
    );
    // Another host on the same folder is at work with them.
    if (left?.pid !== undefined && runs(left.pid)) return quarantine;
    if (left?.proven && left.ends < toleratedEnds) {
      quarantine.#armed = { ...left, ends: left.ends + 1 };
    } else if (left) {
      const reason = left.proven
        ? `the host ended ${left.ends + 1} times in a row while it was bound`
        : 'the host ended soon after it was bound';
      for (const { name } of left.kernels) onBlamed(name, reason);
      try {
        await quarantine.add(left.kernels, reason);
        await quarantine.disarm();
      } catch {
        // Nothing can be written: this process knows of them, and the next one finds what this one found.
      }
    }
    return quarantine;
  }

  /** Why a kernel of this content may not be bound; undefined when it may. */
  reasonFor(digest: string): string | undefined {
    return this.#list.get(digest)?.reason;
  }

  async add(kernels: readonly { digest: string; name: string }[], reason: string): Promise<void> {
    for (const { digest, name } of kernels) {
      this.#list.set(digest, { digest, name, reason, since: new Date().toISOString() });
    }
    await this.#write('quarantine', [...this.#list.values()]);
  }

  /** Says on the disk that these kernels are bound, before they are. */
  async arm(kernels: readonly { digest: string; name: string }[]): Promise<void> {
    clearTimeout(this.#timer);
    const known = new Set(this.#armed?.proven ? this.#armed.kernels.map(({ digest }) => digest) : []);
    // What survived before and is bound again keeps its record.
    const same = kernels.every(({ digest }) => known.has(digest));
    const armed: Armed = {
      kernels: kernels.map(({ digest, name }) => ({ digest, name })),
      since: new Date().toISOString(),
      proven: same && this.#armed !== undefined,
      ends: same ? (this.#armed?.ends ?? 0) : 0,
      pid: process.pid,
    };
    await this.#write('armed', armed);
    this.#armed = armed;
    this.#timer = setTimeout(() => {
      if (!this.#armed) return;
      this.#armed = { ...this.#armed, proven: true, ends: 0 };
      void this.#write('armed', this.#armed).catch(() => undefined);
    }, provenMs);
    this.#timer.unref();
  }

  /** Nothing of the lab is bound any more, or the host ends in an orderly way. */
  async disarm(): Promise<void> {
    clearTimeout(this.#timer);
    this.#armed = undefined;
    const path = this.#path('armed');
    await this.#after(async () => {
      try {
        await rm(path, { force: true });
      } catch (error) {
        // The folder itself is none.
        if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return;
        throw new LabError('lab_failed', `${path} cannot be removed: ${messageOf(error)}.`);
      }
    });
  }

  #path(name: string): string {
    return join(this.#folder, `${name}.json`);
  }

  #write(name: string, value: unknown): Promise<void> {
    return this.#after(async () => {
      const path = this.#path(name);
      const partial = `${path}.tmp`;
      try {
        await mkdir(this.#folder, { recursive: true, mode: 0o700 });
        await writeFile(partial, `${JSON.stringify(value, undefined, 1)}\n`, { mode: 0o600, flush: true });
        await rename(partial, path);
      } catch (error) {
        await rm(partial, { force: true }).catch(() => undefined);
        throw new LabError('lab_failed', `${path} cannot be written: ${messageOf(error)}.`);
      }
    });
  }

  #after(work: () => Promise<void>): Promise<void> {
    const mine = this.#tail.then(work);
    this.#tail = mine.catch(() => undefined);
    return mine;
  }
}

/** Whether another process of this number runs. */
function runs(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** What a file holds; nothing when it is absent or holds something else. */
async function readJson<Out>(path: string, schema: z.ZodType<readonly Out[]>): Promise<readonly Out[]> {
  try {
    return schema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch {
    return [];
  }
}
