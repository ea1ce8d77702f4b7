import {
  EngineError,
  type ModelFiles,
  type Platform,
  type Store,
  type WgslSources,
} from '../engine/index.ts';
import { sha256 } from './sha256.ts';

export interface BrowserPlatformOptions {
  readonly wgsl: WgslSources;
  /** Opens the model that a page names; see `browser-models.ts` and `browser-files.ts`. */
  readonly modelFiles: (location: string) => Promise<ModelFiles>;
  /** Store for measurements of this machine. Without it nothing is measured. */
  readonly store?: Store | undefined;
}

/** Share of the machine's memory that a page may use. */
const memoryShare = 0.5;

/** Platform for a page or a worker in a browser. */
export const browserPlatform = ({ wgsl, modelFiles, store }: BrowserPlatformOptions): Platform => ({
  name: 'browser',
  backend: 'webgpu',
  ...(store ? { store } : {}),
  requestAdapter,
  wgsl: async () => wgsl,
  modelFiles,
  sha256,
  memoryBytes() {
    // In GiB, rounded, at most 8. Some browsers do not report it.
    const { deviceMemory } = navigator as Navigator & { readonly deviceMemory?: number };
    return deviceMemory === undefined ? undefined : deviceMemory * 2 ** 30 * memoryShare;
  },
});

/** @throws EngineError `no_adapter` */
export const requestAdapter = async (): Promise<GPUAdapter> => {
  const { gpu } = navigator as Partial<Navigator>;
  if (!gpu) throw new EngineError('no_adapter', 'this browser does not support WebGPU on this page');
  const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
  if (adapter) return adapter;
  throw new EngineError('no_adapter', 'this browser supports WebGPU, but it has no usable adapter');
};
