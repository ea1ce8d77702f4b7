/** Applies a saved config to a running host, as `--kernels` does at start. */
import { errorMessage } from '../../../../../src/util/error-message.ts';
import { api, held } from '../../../api/client.ts';
import type { components } from '../../../api/schema.d.ts';
import type { Config } from './config-text.ts';

export interface Step {
  readonly name: string;
  readonly state: 'done' | 'failed';
  readonly said?: string;
}

type Findings = components['schemas']['Finding'][];

const errorsOf = (stages: readonly { readonly stage: string; readonly findings: Findings }[]): string =>
  stages
    .flatMap(({ stage, findings }) =>
      findings.filter(({ severity }) => severity === 'error').map(({ message }) => `${stage}: ${message}`),
    )
    .join('\n');

/**
 * Validates the config, checks every kernel again, then replaces the current bindings.
 * @param tell receives every step; after a failed step nothing of the config is bound
 */
export async function applyConfig(
  config: Config,
  tell: (step: Step) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const validated = await held(
    api.POST('/lab/v1/validate', { body: { path: `${config.name}.json` }, signal }),
  );
  if (!validated.ok) {
    tell({ name: 'Validate', state: 'failed', said: errorsOf(validated.stages) });
    return false;
  }
  tell({
    name: 'Validate',
    state: 'done',
    said: 'Signature, safety and parity evidence are valid.',
  });

  for (const { digest: _, ...kernel } of config.kernels) {
    const body = kernel as unknown as components['schemas']['KernelRegistration'];
    const report = await held(api.POST('/lab/v1/kernels', { body, signal }));
    const name = `Check ${kernel.name}`;
    if (!report.accepted) {
      tell({ name, state: 'failed', said: errorsOf(report.stages) });
      return false;
    }
    tell({ name, state: 'done', said: 'Accepted on this adapter.' });
  }

  await held(api.DELETE('/lab/v1/bindings'));
  for (const { kernel, components: ids } of config.bindings) {
    try {
      await held(api.POST('/lab/v1/bindings', { body: { kernel, components: ids } }));
    } catch (error) {
      await held(api.DELETE('/lab/v1/bindings'));
      tell({
        name: `Bind ${kernel}`,
        state: 'failed',
        said: `${errorMessage(error)} All components now run built-in kernels.`,
      });
      return false;
    }
    tell({ name: `Bind ${kernel}`, state: 'done', said: `${ids.length} components.` });
  }
  return true;
}
