import {
  EngineError,
  type ModelFiles,
  type Platform,
  type Store,
  type WgslSources,
} from '../engine/index.ts';
import { sha256 } from './sha256.ts';

export interface BrowserParts {
  readonly wgsl: WgslSources;
  /** Reads what a page names; see `browser-models.ts` and `browser-files.ts`. */
  readonly modelFiles: (location: string) => Promise<ModelFiles>;
  /** Where measurements of this machine are kept; without it nothing is measured. */
  readonly store?: Store | undefined;
}

/** The part of its memory that a page may well take. */
const share = 0.5;

/** The machine as a page or its worker sees it. */
export const browserPlatform = ({ wgsl, modelFiles, store }: BrowserParts): Platform => ({
  name: 'browser',
  backend: 'webgpu',
  ...(store ? { store } : {}),
  requestAdapter,
  wgsl: async () => wgsl,
  modelFiles,
  sha256,
  memoryBytes() {
    // In GiB, rounded, at most 8; some browsers do not tell.
    const { deviceMemory } = navigator as Navigator & { readonly deviceMemory?: number };
    return deviceMemory === undefined ? undefined : deviceMemory * 2 ** 30 * share;
  },
});

/** @throws EngineError `no_adapter` */
export const requestAdapter = async (): Promise<GPUAdapter> => {
  const { gpu } = navigator as Partial<Navigator>;
  if (!gpu) throw new EngineError('no_adapter', 'this browser has no WebGPU here');
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter) return adapter;
  throw new EngineError('no_adapter', 'WebGPU is here, but no adapter that it can use');
};
