/**
 * What the engine needs from the machine it runs on. `src/platform/node.ts` and `browser.ts` implement it. Nothing
 * outside `src/platform` that the engine is made of imports `node:*` or touches `navigator`.
 */

import type { WgslSources } from '../../kernels/assemble.ts';

export type { WgslSources };

/** Random access to a model file. Reads never hold more than what was asked for. */
export interface ByteSource {
  /** For messages: a path or a URL. */
  readonly name: string;
  readonly sizeBytes: number;
  /**
   * Reads `length` bytes at `offset`. Throws when the range leaves the file.
   * @param into where to put them; a view of it is returned (a fresh array when absent)
   */
  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** The files of one model, wherever they lie: a folder, a repository on a hub, a web server, files dropped on a page. */
export interface ModelFiles {
  /** For messages: a path or a URL. */
  readonly name: string;
  /** The file that was named; undefined when a folder or a repository was. */
  readonly entry: string | undefined;
  /** To read something again is to fetch it again: nothing near keeps it. */
  readonly remote?: boolean;
  /** What a person who loads it should know, a sentence each. */
  readonly notes?: readonly string[];
  /** Names below the folder, with slashes; undefined where the place cannot tell. */
  list(): Promise<readonly string[] | undefined>;
  /**
   * Undefined when there is no such file. The caller closes it.
   * @throws ModelFileError for a name that leads out of the folder: names come from files that anybody may have written
   */
  open(name: string): Promise<ByteSource | undefined>;
}

/** An incremental SHA-256. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  /** Lower-case hex. */
  digest(): string;
}

/** Small texts that outlive the process, by name. */
export interface Store {
  /** Undefined when there is none of that name. */
  read(name: string): Promise<string | undefined>;
  write(name: string, text: string): Promise<void>;
}

export interface Platform {
  readonly name: 'node' | 'browser';
  /** What WebGPU runs on: 'vulkan', 'metal', 'd3d12', or 'webgpu' where the platform does not tell. */
  readonly backend: string;
  /**
   * Opens WebGPU. `adapter` picks one by a part of its name; throws listing what there is when none fits. With `fresh`,
   * a device opened before hangs, and what can be kept apart from it is.
   */
  requestAdapter(options: { adapter?: string; fresh?: boolean }): Promise<GPUAdapter>;
  wgsl(): Promise<WgslSources>;
  /** The files at a path, a URL or `hf:OWNER/NAME[:FILE][@REVISION]`. */
  modelFiles(location: string): Promise<ModelFiles>;
  sha256(): Hasher;
  /** For what is measured once a machine; without it, nothing is. */
  readonly store?: Store;
  /** Main memory that this process may use; undefined when unknown. */
  memoryBytes(): number | undefined;
}
