import type { ReadTool } from '../../tool.ts';
import { globMatches } from '../glob.ts';
import { withRefusalAsOutput } from '../refusal.ts';
import {
  withLabErrorsAsRefusals,
  type GetLab,
  toLinesOutput,
  formatNumber,
  labUnavailableReason,
} from './lab-reader.ts';
import { textSchema, objectSchema, enumSchema } from './schema.ts';

type Definition = Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>;

/** Lab tools that read, and do not occupy the engine. */
export function labReadTools(lab: GetLab): ReadTool[] {
  const unavailable = labUnavailableReason(lab);
  const definitions: Definition[] = [
    {
      name: 'lab_graph',
      description: 'The live graph of the resident model: a line a node with its op, kernel, type and shape.',
      inputSchema: objectSchema(
        {
          nodes: textSchema(
            'Only nodes whose id fits; `*` stands for any characters. For example `layers.0.*`.',
            200,
          ),
        },
        [],
      ),
      run: ({ nodes: glob = '*' }) =>
        withRefusalAsOutput(async () => {
          const graph = await withLabErrorsAsRefusals(() => lab().graph());
          const nodes = graph.nodes.filter(({ id }) => globMatches(String(glob), id));
          const spans = graph.spans.filter(({ id }) => globMatches(String(glob), id));
          return toLinesOutput([
            `model ${graph.model}: ${graph.nodes.length} nodes, ${graph.spans.length} spans`,
            ...nodes.map(
              ({ id, op, kernel, dtype, shape, gpu_ms: ms }) =>
                `${id}: ${op}, ${kernel}, ${dtype} [${shape.join(', ')}]${ms === undefined ? '' : `, ${formatNumber(ms)} ms`}`,
            ),
            ...spans.map(
              ({ id, op, fused_kernel: kernel }) =>
                `span ${id}: ${op}${kernel === undefined ? '' : `, ${kernel}`}`,
            ),
          ]);
        }),
    },
    {
      name: 'lab_parts',
      description:
        'What can be swapped: slots with the kernel that is bound to each, and the registered kernels.',
      inputSchema: objectSchema({ op: textSchema('Only parts of this op, as lab_ops lists it.', 100) }, []),
      run: ({ op }) =>
        withRefusalAsOutput(async () => {
          const parts = await withLabErrorsAsRefusals(() => lab().parts());
          const wanted = (part: { op: string }) => op === undefined || part.op === op;
          return toLinesOutput([
            ...parts.kernels
              .filter(wanted)
              .map(({ name, op: of, state, digest }) => `kernel ${name}: ${of}, ${state}, ${digest}`),
            ...parts.slots
              .filter(wanted)
              .map(
                ({ slot, op: of, swappable, bound, compatible }) =>
                  `slot ${slot}: ${of}, bound ${bound}${swappable ? '' : ', fixed'}${compatible.length > 0 ? `, fits ${compatible.join(' ')}` : ''}`,
              ),
          ]);
        }),
    },
    {
      name: 'lab_ops',
      description: 'The ops that a kernel can be written for; with `op`, all that one of them demands.',
      inputSchema: objectSchema({ op: textSchema('The name of an op.', 100) }, []),
      run: ({ op }) =>
        withRefusalAsOutput(async () => {
          const ops = await withLabErrorsAsRefusals(() => lab().ops());
          if (op === undefined)
            return toLinesOutput(
              ops.map((one) => `${one.op}: ${typeof one['summary'] === 'string' ? one['summary'] : ''}`),
            );
          const found = ops.find((one) => one.op === op);
          if (found) return toLinesOutput([JSON.stringify(found)]);
          const names = ops.map((one) => one.op).join(', ');
          return {
            ok: false,
            output: `There is no op ${JSON.stringify(op)}; there are ${names}.`,
            truncated: false,
          };
        }),
    },
    {
      name: 'lab_stub',
      description: 'WGSL of a kernel that computes an op plainly: where a faster one starts from.',
      inputSchema: objectSchema(
        {
          op: textSchema('As lab_ops lists it.', 100),
          target: enumSchema(['plain', 'f16', 'subgroups'], 'What it is written for; default plain.'),
          format: textSchema(
            'Weight format, for ops that read weights; default that of the component or the model.',
            20,
          ),
          component: textSchema('Component that it is for, as lab_graph lists it.', 200),
        },
        ['op'],
      ),
      run: ({ op, ...options }) =>
        withRefusalAsOutput(async () => {
          const given = (name: string) => {
            const value = options[name];
            return typeof value === 'string' ? { [name]: value } : {};
          };
          const stub = await withLabErrorsAsRefusals(() =>
            lab().stub(String(op), { ...given('target'), ...given('format'), ...given('component') }),
          );
          return toLinesOutput(stub.source.split('\n'), 1000);
        }),
    },
    {
      name: 'lab_configs',
      description: 'Names of the saved sets of bound kernels.',
      inputSchema: objectSchema({}, []),
      run: () =>
        withRefusalAsOutput(async () =>
          toLinesOutput(await withLabErrorsAsRefusals(() => lab().configNames())),
        ),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', unavailable, ...one }));
}
