/** Applies a saved config to a running host, as `--kernels` does at start. */
import { errorMessage } from '../../../../../src/util/error-message.ts';
import { api, unwrap } from '../../../../api/client.ts';
import type { components } from '../../../../api/schema.d.ts';
import type { Config } from './config-text.ts';

export interface ApplyStep {
  readonly name: string;
  readonly state: 'done' | 'failed';
  readonly message?: string;
}

type Findings = components['schemas']['Finding'][];

const errorTexts = (stages: readonly { readonly stage: string; readonly findings: Findings }[]): string =>
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
  onStep: (step: ApplyStep) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const validated = await unwrap(
    api.POST('/lab/v1/validate', { body: { path: `${config.name}.json` }, signal }),
  );
  if (!validated.ok) {
    onStep({ name: 'Validate', state: 'failed', message: errorTexts(validated.stages) });
    return false;
  }
  onStep({
    name: 'Validate',
    state: 'done',
    message: 'Signature, safety and parity evidence are valid.',
  });

  for (const { digest: _, ...kernel } of config.kernels) {
    const body = kernel as unknown as components['schemas']['KernelRegistration'];
    const report = await unwrap(api.POST('/lab/v1/kernels', { body, signal }));
    const name = `Check ${kernel.name}`;
    if (!report.accepted) {
      onStep({ name, state: 'failed', message: errorTexts(report.stages) });
      return false;
    }
    onStep({ name, state: 'done', message: 'Accepted on this adapter.' });
  }

  await unwrap(api.DELETE('/lab/v1/bindings'));
  for (const { kernel, components: ids } of config.bindings) {
    try {
      await unwrap(api.POST('/lab/v1/bindings', { body: { kernel, components: ids } }));
    } catch (error) {
      await unwrap(api.DELETE('/lab/v1/bindings'));
      onStep({
        name: `Bind ${kernel}`,
        state: 'failed',
        message: `${errorMessage(error)} All components now run built-in kernels.`,
      });
      return false;
    }
    onStep({ name: `Bind ${kernel}`, state: 'done', message: `${ids.length} components.` });
  }
  return true;
}
