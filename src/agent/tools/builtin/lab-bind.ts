import type { ChangeTool, Proposal } from '../../tool.ts';
import { answering, baseMoved, Refusal, said } from '../refusal.ts';
import { asked, type FindLab, type LabReader, whyNoLab } from './lab-reader.ts';
import { aChange, aList, aText } from './schema.ts';
import { intentOf } from './staged-file.ts';

interface Binding {
  readonly kernel: string;
  readonly components?: readonly string[];
  readonly span?: string;
}
interface Staged extends Binding {
  readonly digest: string;
}

const kernelOf = async (lab: LabReader, name: string) => {
  const { kernels } = await asked(() => lab.parts());
  return { found: kernels.find((one) => one.name === name), kernels };
};

const whatOf = ({ components = [], span }: Binding): string =>
  [...components, ...(span === undefined ? [] : [`span ${span}`])].join(', ');

/** Tools that change the bound kernels of the resident model. */
export function labBindTools(lab: FindLab): ChangeTool[] {
  const unavailable = whyNoLab(lab);
  return [
    {
      kind: 'change',
      name: 'lab_bind',
      description: 'Binds a registered kernel to components or to a fused span of the resident model.',
      source: 'builtin',
      inputSchema: aChange(
        {
          kernel: aText('As lab_parts lists it.', 200),
          components: aList(
            aText('', 200),
            1,
            64,
            'Ids of components; `*` stands for a part between dots, `**` for any.',
          ),
          span: aText('Id of a span, instead of components.', 200),
        },
        ['kernel'],
      ),
      unavailable,
      propose: (args, _context) =>
        answering(async (): Promise<Proposal> => {
          const { kernel, components, span } = args as unknown as Binding;
          if (components === undefined && span === undefined)
            throw new Refusal('Expected components, span or both, got neither.');
          const { found, kernels } = await kernelOf(lab(), kernel);
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
            intent: intentOf(args),
            summary: `Run ${whatOf(binding)} on the kernel ${kernel} (${found.state}).`,
            baseHash: found.digest,
            risk: 'medium',
            payload,
          };
        }),
      async apply(payload) {
        return await answering(async () => {
          const { digest, ...binding } = payload as Staged;
          const { found } = await kernelOf(lab(), binding.kernel);
          if (found?.digest !== digest)
            throw baseMoved(
              `The kernel ${binding.kernel} is not the one that this was proposed for, so nothing was bound.`,
            );
          const { components, replaced } = await asked(() => lab().bind(binding));
          const instead = replaced.length === 0 ? '' : ` instead of ${replaced.join(', ')}`;
          return said(`${components.length} components run on ${binding.kernel} now${instead}.`);
        });
      },
    },
    {
      kind: 'change',
      name: 'lab_clear',
      description: 'Brings the built-in kernels back everywhere.',
      source: 'builtin',
      inputSchema: aChange({}, []),
      unavailable,
      propose: async (args) => ({
        kind: 'tool_call',
        intent: intentOf(args),
        summary: 'Bring the built-in kernels back everywhere.',
        risk: 'medium',
        payload: {},
      }),
      apply: () =>
        answering(async () => {
          await asked(() => lab().unbind());
          return said('Everything runs on built-in kernels.');
        }),
    },
  ];
}
