import type { ChangeTool, Proposal } from '../../tool.ts';
import { withRefusalAsOutput, baseMovedError, Refusal, okOutput } from '../refusal.ts';
import { withLabErrorsAsRefusals, type GetLab, type LabReader, labUnavailableReason } from './lab-reader.ts';
import { changeSchema, listSchema, textSchema } from './schema.ts';
import { readIntent } from './staged-file.ts';

interface Binding {
  readonly kernel: string;
  readonly components?: readonly string[];
  readonly span?: string;
}
interface Staged extends Binding {
  readonly digest: string;
}

const findKernel = async (lab: LabReader, name: string) => {
  const { kernels } = await withLabErrorsAsRefusals(() => lab.parts());
  return { kernelInfo: kernels.find((one) => one.name === name), kernels };
};

const describeTargets = ({ components = [], span }: Binding): string =>
  [...components, ...(span === undefined ? [] : [`span ${span}`])].join(', ');

/** Tools that change the bound kernels of the resident model. */
export function labBindTools(lab: GetLab): ChangeTool[] {
  const unavailable = labUnavailableReason(lab);
  return [
    {
      kind: 'change',
      name: 'lab_bind',
      description: 'Binds a registered kernel to components or to a fused span of the resident model.',
      source: 'builtin',
      inputSchema: changeSchema(
        {
          kernel: textSchema('As lab_parts lists it.', 200),
          components: listSchema(
            textSchema('', 200),
            1,
            64,
            'Ids of components; `*` stands for a part between dots, `**` for any.',
          ),
          span: textSchema('Id of a span, instead of components.', 200),
        },
        ['kernel'],
      ),
      unavailable,
      propose: (args, _context) =>
        withRefusalAsOutput(async (): Promise<Proposal> => {
          const { kernel, components, span } = args as unknown as Binding;
          if (components === undefined && span === undefined)
            throw new Refusal('Expected components, span or both, got neither.');
          const { kernelInfo: found, kernels } = await findKernel(lab(), kernel);
          if (!found) {
            const names = kernels.map(({ name }) => name).join(', ') || 'none';
            throw new Refusal(`kernel: there is no '${kernel}'; registered are ${names}.`);
          }
          if (found.state === 'rejected' || found.state === 'quarantined')
            throw new Refusal(`kernel: '${kernel}' is ${found.state}, so it cannot be bound.`);
          const binding: Binding = {
            kernel,
            ...(components === undefined ? {} : { components }),
            ...(span === undefined ? {} : { span }),
          };
          const payload: Staged = { ...binding, digest: found.digest };
          return {
            kind: 'tool_call',
            intent: readIntent(args),
            summary: `Run ${describeTargets(binding)} on the kernel ${kernel} (${found.state}).`,
            baseHash: found.digest,
            risk: 'medium',
            payload,
          };
        }),
      async apply(payload, signal) {
        return await withRefusalAsOutput(async () => {
          const { digest, ...binding } = payload as Staged;
          const { kernelInfo: found } = await findKernel(lab(), binding.kernel);
          if (found?.digest !== digest)
            throw baseMovedError(
              `The kernel ${binding.kernel} is not the one that this was proposed for, so nothing was bound.`,
            );
          const { components, replaced } = await withLabErrorsAsRefusals(() => lab().bind(binding, signal));
          const replacedNote = replaced.length === 0 ? '' : ` instead of ${replaced.join(', ')}`;
          return okOutput(`${components.length} components run on ${binding.kernel} now${replacedNote}.`);
        });
      },
    },
    {
      kind: 'change',
      name: 'lab_clear',
      description: 'Brings the built-in kernels back everywhere.',
      source: 'builtin',
      inputSchema: changeSchema({}, []),
      unavailable,
      propose: async (args) => ({
        kind: 'tool_call',
        intent: readIntent(args),
        summary: 'Bring the built-in kernels back everywhere.',
        risk: 'medium',
        payload: {},
      }),
      apply: () =>
        withRefusalAsOutput(async () => {
          await withLabErrorsAsRefusals(() => lab().unbind());
          return okOutput('Everything runs on built-in kernels.');
        }),
    },
  ];
}
