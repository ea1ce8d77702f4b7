/**
 * What the engine requires of its host environment. `src/platform/node.ts` and `src/platform/browser.ts` implement
 * it. No other module that the engine consists of imports `node:*` or uses `navigator`.
 */

import type { WgslSources } from '../../kernels/assemble.ts';

export type { WgslSources };

/** Random access to a model file. A read holds no more memory than the requested range. */
export interface ByteSource {
  /** Path or URL, for messages. */
  readonly name: string;
  readonly sizeBytes: number;
  /**
   * Reads `length` bytes at `offset`. Throws when the range exceeds the file.
   * @param into target buffer, of which a view is returned; a new array when absent
   */
  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** The files of one model: in a folder, a hub repository, on a web server, or dropped on a page. */
export interface ModelFiles {
  /** Path or URL, for messages. */
  readonly name: string;
  /** The file that was named; undefined when a folder or repository was named. */
  readonly entry: string | undefined;
  /** Reading again means downloading again, because nothing is cached locally. */
  readonly remote?: boolean;
  /** Notes for the user who loads the model, one sentence each. */
  readonly notes?: readonly string[];
  /** File names relative to the folder, with slashes; undefined where listing is not possible. */
  list(): Promise<readonly string[] | undefined>;
  /**
   * Opens a file; undefined when it does not exist. The caller closes it.
   * @throws ModelFileError for a name outside the folder: names come from untrusted files
   */
  open(name: string): Promise<ByteSource | undefined>;
}

/** Incremental SHA-256. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. */
  digest(): string;
}

/** Persistent storage of small texts by name. */
export interface Store {
  /** Returns undefined when there is no text of that name. */
  read(name: string): Promise<string | undefined>;
  write(name: string, text: string): Promise<void>;
}

export interface Platform {
  readonly name: 'node' | 'browser';
  /** Backend of WebGPU: 'vulkan', 'metal', 'd3d12', or 'webgpu' when the platform does not report it. */
  readonly backend: string;
  /**
   * Requests a WebGPU adapter. `adapter` selects one by a part of its name; throws an error that lists the available
   * ones when none matches. `fresh` is set when the previous device hangs: the new one must share as little as
   * possible with it. `features`: features of Dawn to enable in addition to those that the platform enables.
   */
  requestAdapter(options: {
    adapter?: string;
    fresh?: boolean;
    features?: readonly string[];
  }): Promise<GPUAdapter>;
  wgsl(): Promise<WgslSources>;
  /** The files at a path, a URL or `hf:OWNER/NAME[:FILE][@REVISION]`. */
  modelFiles(location: string): Promise<ModelFiles>;
  sha256(): Hasher;
  /** Storage for measurements of this machine; without it, nothing is measured. */
  readonly store?: Store;
  /** Main memory available to this process; undefined when unknown. */
  memoryBytes(): number | undefined;
  /** Processor time that this process has used, in ms. */
  readonly processorMs?: () => number;
}
