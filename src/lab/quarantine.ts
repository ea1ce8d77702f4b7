/**
 * Kernels that took the device or the process down: remembered by content across starts. While kernels are bound, a
 * file says so; it is gone after an orderly end. A start that finds one knows that the process before it died with
 * those kernels bound, and does not bind them again, so that a bad kernel in a saved config cannot keep the host from
 * starting.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

interface Quarantined {
  readonly digest: string;
  readonly name: string;
  readonly reason: string;
  readonly since: string;
}

/** Kernels that ran for so long without a fault are not blamed for the first ends of the process after that. */
const provenMs = 60_000;
const toleratedEnds = 2;

interface Armed {
  readonly kernels: readonly { readonly digest: string; readonly name: string }[];
  readonly since: string;
  readonly proven: boolean;
  /** Disorderly ends of the process since they were proven. */
  readonly ends: number;
}

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
    await mkdir(quarantine.#folder, { recursive: true, mode: 0o700 });
    const list = await readJson<readonly Quarantined[]>(quarantine.#path('quarantine'), Array.isArray);
    for (const one of list ?? []) quarantine.#list.set(one.digest, one);
    const left = await readJson<Armed>(quarantine.#path('armed'), (value) =>
      Array.isArray((value as Partial<Armed>).kernels),
    );
    if (left?.proven && left.ends < toleratedEnds) {
      quarantine.#armed = { ...left, ends: left.ends + 1 };
    } else if (left) {
      const reason = left.proven
        ? `the host ended ${left.ends + 1} times in a row while it was bound`
        : 'the host ended soon after it was bound';
      for (const { digest, name } of left.kernels) {
        await quarantine.add([{ digest, name }], reason);
        onBlamed(name, reason);
      }
      await quarantine.disarm();
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
    this.#armed = {
      kernels: kernels.map(({ digest, name }) => ({ digest, name })),
      since: new Date().toISOString(),
      proven: same && this.#armed !== undefined,
      ends: same ? (this.#armed?.ends ?? 0) : 0,
    };
    await this.#write('armed', this.#armed);
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
    await this.#after(() => rm(this.#path('armed'), { force: true }));
  }

  #path(name: string): string {
    return join(this.#folder, `${name}.json`);
  }

  #write(name: string, value: unknown): Promise<void> {
    return this.#after(async () => {
      const path = this.#path(name);
      await writeFile(`${path}.tmp`, `${JSON.stringify(value, undefined, 1)}\n`, {
        mode: 0o600,
        flush: true,
      });
      await rename(`${path}.tmp`, path);
    });
  }

  #after(work: () => Promise<void>): Promise<void> {
    const mine = this.#tail.then(work);
    this.#tail = mine.catch(() => undefined);
    return mine;
  }
}

async function readJson<T>(path: string, isSound: (value: unknown) => boolean): Promise<T | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return typeof value === 'object' && value !== null && isSound(value) ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}
