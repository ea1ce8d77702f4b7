/** Pipeline stage of the gate: compiles with the driver, with an explicit layout from the op's contract. */
import type { Contract, ContractBinding } from '../../../kernels/contracts.ts';
import type { Finding } from '../types.ts';
import { createFinding } from './codes.ts';

export interface PipelineRequest {
  readonly module: GPUShaderModule;
  readonly contract: Contract;
  readonly entryPoint: string;
  /** Override values by name. */
  readonly constants: Readonly<Record<string, number>>;
  readonly label: string;
  /** Layouts of group 1 and up. */
  readonly extraGroups?: readonly GPUBindGroupLayout[];
  /** Source of the author, to convert columns in compiler messages to UTF-16. */
  readonly source?: string;
}

export interface CompiledPipeline {
  readonly pipeline: GPUComputePipeline;
  /** Layout of group 0. Binding numbers are indices in the contract's list. */
  readonly layout: GPUBindGroupLayout;
}

const bufferType = ({ role }: ContractBinding): GPUBufferBindingType => {
  if (role === 'uniform') return 'uniform';
  return role === 'in' ? 'read-only-storage' : 'storage';
};

/** Does not throw, and causes no uncaptured device errors. */
export async function compilePipeline(
  device: GPUDevice,
  request: PipelineRequest,
): Promise<CompiledPipeline | { findings: Finding[] }> {
  const { module, contract, entryPoint, constants, label, extraGroups = [], source = '' } = request;
  device.pushErrorScope('internal');
  device.pushErrorScope('validation');
  const layout = device.createBindGroupLayout({
    label,
    entries: contract.bindings.map((binding, index) => ({
      binding: index,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type: bufferType(binding) },
    })),
  });
  const compilation = device
    .createComputePipelineAsync({
      label,
      layout: device.createPipelineLayout({ label, bindGroupLayouts: [layout, ...extraGroups] }),
      compute: { module, entryPoint, constants },
    })
    .then(
      (pipeline) => ({ pipeline }),
      (error: unknown) => ({ error }),
    );
  const scopes = [device.popErrorScope(), device.popErrorScope()].map(
    (scope) => scope.catch((error: unknown) => error as GPUError), // the device was lost
  );
  const [outcome, ...scoped] = await Promise.all([compilation, ...scopes]);
  // An error of the layout is more specific than the pipeline's "is invalid due to a previous error".
  const scopedError = scoped.find((error) => error !== null);
  if ('pipeline' in outcome && !scopedError) return { pipeline: outcome.pipeline, layout };
  const error = scopedError ?? ('error' in outcome ? outcome.error : undefined);
  const message = error instanceof Error || isMessage(error) ? error.message : String(error);
  const isInternal = 'error' in outcome && !scopedError && reasonOf(outcome.error) === 'internal';
  return { findings: [findingOf(message, isInternal, source)] };
}

const isMessage = (error: unknown): error is { message: string } =>
  typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string';

const reasonOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'reason' in error ? error.reason : undefined;

/** Patterns of Dawn's messages for exceeded limits. The groups `got` and `most` are the values. */
const limits: readonly { readonly pattern: RegExp; readonly limit: string }[] = [
  {
    pattern: /number of workgroup invocations \((?<got>\d+)\).*maximum allowed \((?<most>\d+)\)/,
    limit: 'maxComputeInvocationsPerWorkgroup',
  },
  {
    pattern: /workgroup_size\((?<got>[\d, ]+)\).*maximum allowed \((?<most>[\d, ]+)\)/,
    limit: 'maxComputeWorkgroupSizeX, Y, Z',
  },
  {
    pattern: /workgroup storage \((?<got>\d+) bytes\).*maximum allowed \((?<most>\d+) bytes\)/,
    limit: 'maxComputeWorkgroupStorageSize',
  },
  {
    pattern: /number of storage buffers \((?<got>\d+)\).*per-stage limit \((?<most>\d+)\)/,
    limit: 'maxStorageBuffersPerShaderStage',
  },
  {
    pattern: /number of uniform buffers \((?<got>\d+)\).*per-stage limit \((?<most>\d+)\)/,
    limit: 'maxUniformBuffersPerShaderStage',
  },
];

function findingOf(message: string, isInternal: boolean, source: string): Finding {
  for (const { pattern, limit } of limits) {
    const { got, most } = pattern.exec(message)?.groups ?? {};
    if (got !== undefined && most !== undefined) {
      return createFinding('limit_exceeded', 'error', `${limit}: expected at most ${most}, got ${got}`);
    }
  }
  const code = isInternal ? 'pipeline_internal' : 'pipeline_validation';
  // Override expressions are checked only here. The column in the message counts UTF-8 bytes.
  const match = /^:(\d+):(\d+) error: (.*)$(?:\n.*\n *(\^+))?/m.exec(message);
  if (!match) return createFinding(code, 'error', (message.split('\n - ')[0] ?? message).trim());
  const [, line = '1', column = '1', text = '', carets = '^'] = match;
  const lineText = source.split(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/)[Number(line) - 1] ?? '';
  const before = new TextEncoder().encode(lineText).subarray(0, Number(column) - 1);
  const utf16 = lineText === '' ? Number(column) : new TextDecoder().decode(before).length + 1;
  return createFinding(code, 'error', text, { line: Number(line), column: utf16, length: carets.length });
}
