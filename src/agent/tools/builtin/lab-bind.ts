import { createHash } from 'node:crypto';
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
interface Saved {
  readonly name: string;
  /** Digest of the bindings. */
  readonly hash: string;
}
interface Staged extends Binding {
  readonly digest: string;
}

const findKernel = async (lab: LabReader, name: string) => {
  const { kernels } = await withLabErrorsAsRefusals(() => lab.parts());
  return { kernelInfo: kernels.find((one) => one.name === name), kernels };
};

/** The bound kernels, each with the number of its components, and a digest of what is bound where. */
async function bindingsOf(lab: LabReader): Promise<{ summary: string; hash: string }> {
  const { components, kernels } = await withLabErrorsAsRefusals(() => lab.parts());
  const digests = new Map(kernels.map(({ name, digest }) => [name, digest]));
  const bound = components.filter(({ kernel }) => digests.has(kernel));
  const counts = [...Map.groupBy(bound, ({ kernel }) => kernel)].map(
    ([kernel, { length }]) => `${kernel} on ${length} ${length === 1 ? 'component' : 'components'}`,
  );
  const state = bound.map(({ id, kernel }) => [id, kernel, digests.get(kernel)]);
  return {
    summary: counts.join(', '),
    hash: `sha256:${createHash('sha256').update(JSON.stringify(state)).digest('hex')}`,
  };
}

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
      name: 'lab_save',
      description:
        'Saves the bound kernels as a signed config with their reports and the last bench of these bindings.',
      source: 'builtin',
      inputSchema: changeSchema(
        {
          name: {
            ...textSchema('A file name without a folder. A config of the same name is replaced.'),
            pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
          },
        },
        ['name'],
      ),
      unavailable,
      propose: (args, _context) =>
        withRefusalAsOutput(async (): Promise<Proposal> => {
          const name = String(args['name']);
          const { summary, hash } = await bindingsOf(lab());
          if (summary === '') throw new Refusal('No kernel is bound, so there is nothing to save.');
          const names = await withLabErrorsAsRefusals(() => lab().configNames());
          const payload: Saved = { name, hash };
          return {
            kind: 'tool_call',
            intent: readIntent(args),
            summary: `Save the config ${name}${names.includes(name) ? ', which replaces the one of that name' : ''}: ${summary}.`,
            baseHash: hash,
            risk: names.includes(name) ? 'medium' : 'low',
            payload,
          };
        }),
      apply: (payload) =>
        withRefusalAsOutput(async () => {
          const { name, hash } = payload as Saved;
          if ((await bindingsOf(lab())).hash !== hash)
            throw baseMovedError(
              'Other kernels are bound than when this was proposed, so nothing was saved.',
            );
          await withLabErrorsAsRefusals(() => lab().saveConfig(name));
          return okOutput(`The config ${name} is saved and signed.`);
        }),
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
