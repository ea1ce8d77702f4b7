/** The private file system of an origin, in memory: what a worker and a page see of it, with a quota. */
import type { StorageFolder, WriteHandle } from '../../src/platform/browser-storage.ts';
import type { Locks } from '../../src/platform/model-cache-records.ts';

interface StoredFile {
  bytes: Uint8Array<ArrayBuffer>;
  isOpen: boolean;
}
type Entry = StoredFile | Map<string, Entry>;

const refusal = (name: string) => new DOMException(`no: ${name}`, name);

export class PrivateFiles {
  readonly #root = new Map<string, Entry>();
  /** Handles of them are of no use any more. */
  readonly #removed = new WeakSet<Entry>();
  /** Bytes that may be kept. */
  quota: number;
  /** What it says it may keep, where that is not the truth. */
  claimed: number | undefined;
  /** A write that has no room does not throw. */
  refusesByCount = false;

  constructor(quota = Number.POSITIVE_INFINITY) {
    this.quota = quota;
  }

  get root(): StorageFolder {
    return this.#folder('', this.#root);
  }

  readonly room = async () => ({ quota: this.claimed ?? this.quota, usage: this.#usage(this.#root) });

  /** Contents by path. */
  contents(folder = this.#root, prefix = ''): Map<string, Uint8Array<ArrayBuffer>> {
    return new Map(
      [...folder].flatMap(([name, entry]) =>
        entry instanceof Map
          ? [...this.contents(entry, `${prefix}${name}/`)]
          : [[`${prefix}${name}`, entry.bytes] as const],
      ),
    );
  }

  #usage(folder: Map<string, Entry>): number {
    return [...this.contents(folder).values()].reduce((sum, { length }) => sum + length, 0);
  }

  #folder(name: string, entries: Map<string, Entry>): StorageFolder {
    const find = <Kind extends Entry>(
      one: string,
      is: (entry: Entry) => entry is Kind,
      make: () => Kind,
      create = false,
    ): Kind => {
      if (this.#removed.has(entries)) throw refusal('NotFoundError');
      const entry = entries.get(one);
      if (entry && !is(entry)) throw refusal('TypeMismatchError');
      if (entry) return entry;
      if (!create) throw refusal('NotFoundError');
      const made = make();
      entries.set(one, made);
      return made;
    };
    return {
      name,
      getFileHandle: async (one, { create } = {}) => {
        const file = find(one, isFile, () => ({ bytes: new Uint8Array(), isOpen: false }), create);
        return {
          getFile: async () => new Blob([file.bytes]),
          createSyncAccessHandle: async () => {
            if (file.isOpen) throw refusal('NoModificationAllowedError');
            file.isOpen = true;
            return this.#handle(file);
          },
        };
      },
      getDirectoryHandle: async (one, { create } = {}) =>
        this.#folder(
          one,
          find(one, isFolder, () => new Map(), create),
        ),
      removeEntry: async (one) => {
        const entry = entries.get(one);
        if (!entry) throw refusal('NotFoundError');
        entries.delete(one);
        this.#removed.add(entry);
      },
      async *values() {
        for (const [one, entry] of entries) yield { kind: isFile(entry) ? 'file' : 'directory', name: one };
      },
    };
  }

  #handle(file: StoredFile): WriteHandle {
    return {
      getSize: () => file.bytes.length,
      write: (bytes, { at }) => {
        const size = Math.max(file.bytes.length, at + bytes.length);
        if (this.#usage(this.#root) + size - file.bytes.length > this.quota) {
          // As Chromium does.
          if (this.refusesByCount) return 2 ** 32 - 8;
          throw refusal('QuotaExceededError');
        }
        const grown = new Uint8Array(size);
        grown.set(file.bytes);
        grown.set(bytes, at);
        file.bytes = grown;
        return bytes.length;
      },
      truncate: (bytes) => {
        const cut = new Uint8Array(bytes);
        cut.set(file.bytes.subarray(0, bytes));
        file.bytes = cut;
      },
      flush() {},
      close: () => void (file.isOpen = false),
    };
  }
}

const isFile = (entry: Entry): entry is StoredFile => !(entry instanceof Map);
const isFolder = (entry: Entry): entry is Map<string, Entry> => entry instanceof Map;

/** `navigator.locks` of one origin. */
export const lockManager = (): Locks => {
  const held = new Map<string, Promise<unknown>>();
  return {
    async request(name, { ifAvailable }, work) {
      while (held.has(name)) {
        if (ifAvailable) return await work(null);
        await held.get(name)?.catch(() => {});
      }
      const working = work({});
      held.set(name, working);
      try {
        return await working;
      } finally {
        held.delete(name);
      }
    },
  };
};
