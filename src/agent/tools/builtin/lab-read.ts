import type { ReadTool } from '../../tool.ts';
import { globMatches } from '../glob.ts';
import { answering } from '../refusal.ts';
import { asked, type FindLab, lines, short, whyNoLab } from './lab-reader.ts';
import { aText, anObject, oneOf } from './schema.ts';

type Definition = Pick<ReadTool, 'name' | 'description' | 'inputSchema' | 'run'>;

/** Lab tools that read, and do not occupy the engine. */
export function labReadTools(lab: FindLab): ReadTool[] {
  const unavailable = whyNoLab(lab);
  const definitions: Definition[] = [
    {
      name: 'lab_graph',
      description: 'The live graph of the resident model: a line a node with its op, kernel, type and shape.',
      inputSchema: anObject(
        {
          nodes: aText(
            'Only nodes whose id fits; `*` stands for any characters. For example `layers.0.*`.',
            200,
          ),
        },
        [],
      ),
      run: ({ nodes: glob = '*' }) =>
        answering(async () => {
          const graph = await asked(() => lab().graph());
          const nodes = graph.nodes.filter(({ id }) => globMatches(String(glob), id));
          const spans = graph.spans.filter(({ id }) => globMatches(String(glob), id));
          return lines([
            `model ${graph.model}: ${graph.nodes.length} nodes, ${graph.spans.length} spans`,
            ...nodes.map(
              ({ id, op, kernel, dtype, shape, gpu_ms: ms }) =>
                `${id}: ${op}, ${kernel}, ${dtype} [${shape.join(', ')}]${ms === undefined ? '' : `, ${short(ms)} ms`}`,
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
      inputSchema: anObject({ op: aText('Only parts of this op, as lab_ops lists it.', 100) }, []),
      run: ({ op }) =>
        answering(async () => {
          const parts = await asked(() => lab().parts());
          const wanted = (part: { op: string }) => op === undefined || part.op === op;
          return lines([
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
      inputSchema: anObject({ op: aText('The name of an op.', 100) }, []),
      run: ({ op }) =>
        answering(async () => {
          const ops = await asked(() => lab().ops());
          if (op === undefined)
            return lines(
              ops.map((one) => `${one.op}: ${typeof one['summary'] === 'string' ? one['summary'] : ''}`),
            );
          const found = ops.find((one) => one.op === op);
          if (found) return lines([JSON.stringify(found)]);
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
      inputSchema: anObject(
        {
          op: aText('As lab_ops lists it.', 100),
          target: oneOf(['plain', 'f16', 'subgroups'], 'What it is written for; default plain.'),
        },
        ['op'],
      ),
      run: ({ op, target }) =>
        answering(async () => {
          const stub = await asked(() =>
            lab().stub(String(op), typeof target === 'string' ? target : undefined),
          );
          return lines(stub.source.split('\n'), 1000);
        }),
    },
    {
      name: 'lab_configs',
      description: 'Names of the saved sets of bound kernels.',
      inputSchema: anObject({}, []),
      run: () => answering(async () => lines(await asked(() => lab().configNames()))),
    },
  ];
  return definitions.map((one) => ({ kind: 'read', source: 'builtin', unavailable, ...one }));
}
