/** Lab kernels, bound to the tensors of the live graph according to their contracts. */
import { type Contract, type ContractBinding, packUniform } from '../../../kernels/contracts.ts';
import type { BoundBuffer, PlanContext } from '../execution/plan-context.ts';
import { dispatchId, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { Dims, LabUnit } from '../graph/bindings.ts';
import type { LabInputs, PlanOp } from './op.ts';

export const lab: PlanOp<LabUnit> = {
  plan: (context, unit) =>
    Promise.all(
      unit.site
        .inputs(context)
        .map((inputs, index) => planLab(context, unit, inputs, dispatchId(unit.id, index))),
    ),
  vectors: ({ site }) => site.vectors ?? [],
};

async function planLab(
  context: PlanContext,
  { id: target, kernel }: LabUnit,
  { rows = 'tokens', ...inputs }: LabInputs,
  id: string,
): Promise<PlannedDispatch> {
  const { memory, pool } = context;
  const { pipeline, layout } = await context.pipelines.getLab(kernel);
  // Offset 0 holds the step header; offset 256 holds the same header with the sampled rows in place of the tokens.
  const header = rows === 'samples' ? memory.layout.sampledHeader : 0;
  const buffers: Readonly<Record<string, BoundBuffer>> = {
    ...inputs.buffers,
    params: pool.uniform(`${id}.params`, packUniform(bindingOf(kernel.contract, 'params'), inputs.params)),
    step: { buffer: memory.step, offset: header, size: 16 },
  };
  const entries = kernel.contract.bindings.map(({ name }, binding) => {
    const bound = buffers[name];
    if (!bound) throw new Error(`${id}: nothing bound to ${name}`);
    return { binding, resource: 'buffer' in bound ? bound : { buffer: bound } };
  });
  // One object is reused for all steps, so decoding allocates nothing.
  const dims: Dims = { ...inputs.dims, tokens: 0, context: 0 };
  return {
    id,
    op: kernel.contract.op,
    rows,
    bindGroup: context.gpu.device.createBindGroup({ label: id, layout, entries }),
    choices: [
      {
        upTo: Number.POSITIVE_INFINITY,
        rows: undefined,
        kernel: kernel.name,
        pipeline,
        grid(step) {
          dims['tokens'] = rows === 'samples' ? step.samples : step.tokens;
          return kernel.grid(dims);
        },
      },
    ],
    lab: { ...inputs, kernel, target, buffers },
  };
}

function bindingOf(contract: Contract, name: string): ContractBinding {
  const binding = contract.bindings.find((one) => one.name === name);
  if (!binding) throw new Error(`${contract.op} has no binding '${name}'`);
  return binding;
}
