import type { ReactNode } from 'react';
import { CodeBlock } from '../../../ui/copy.tsx';
import { Facts, Panel } from '../../../ui/index.tsx';
import type { HostModel, HostModels } from './queries.ts';

const switching = {
  none: 'A request that names another model is refused: the host keeps the models it was started with.',
  replace: 'A request that names another model loads it in place of the resident one (--swap).',
  beside: 'A request that names another model loads it beside the others, as memory allows (--resident).',
};

/** What each loaded model is for, and how to start the host so that others can be loaded. */
export function RolesPanel({ loading, models }: Pick<HostModels, 'loading' | 'models'>) {
  const inRole = (role: HostModel['role']): ReactNode =>
    models
      .filter((model) => model.role === role)
      .map(({ name }) => name)
      .join(', ');
  const absent = (option: string) => (
    <>
      none; start the host with <code data-flag>{option}</code>
    </>
  );
  return (
    <Panel title="Roles">
      <Facts
        facts={[
          ['Resident', inRole('resident') || absent('--model NAME')],
          ['Additional', inRole('beside') || (loading === 'beside' ? 'none' : absent('--resident N'))],
          ['Embeddings', inRole('embedding') || absent('--embedding-model NAME')],
          ['Draft', inRole('draft') || absent('--draft NAME')],
        ]}
      />
      <p>{switching[loading]}</p>
      {loading === 'none' && (
        <>
          <p>To load others from here, start the host with one of these:</p>
          <CodeBlock
            label="Commands that let requests load models"
            code={
              '# in place of the resident one\nnode dist/host.js --gpu --swap\n# up to three at once\nnode dist/host.js --gpu --resident 3'
            }
          />
        </>
      )}
    </Panel>
  );
}
