import { Link } from 'wouter';
import { Badge, Button, Facts, Panel } from '../../../../ui/index.tsx';
import { formatBytes, formatMs, formatNumber } from '../../../../ui/format.ts';
import type { Parts } from '../bindings.tsx';
import { BindNodeForm } from './bind-node-form.tsx';
import css from './graph.module.css';
import {
  formatShare,
  type GraphNode,
  kernelName,
  type LabGraph,
  shortId,
  type Times,
} from './graph-model.ts';
import { workbenchPath } from '../kernels/paths.ts';

/** Details of a node: op, kernel, GPU time and kernels that can be bound. */
export function NodePanel(props: {
  graph: LabGraph;
  node: GraphNode;
  times: Times;
  parts: Parts | undefined;
  select: (id: string) => void;
}) {
  const { graph, node, times, parts, select } = props;
  const unit = times.units.get(node.component);
  const otherNodes = unit?.nodes.filter(({ id }) => id !== node.id) ?? [];
  const { name, variant, isBuiltin } = kernelName(node.kernel);
  const shape = (all: readonly (number | string)[], dtype: string) => `[${all.join(', ')}] ${dtype}`;
  const inputs = graph.edges.filter(({ to }) => to === node.id);
  const outputs = graph.edges.filter(({ from }) => from === node.id);
  const link = (id: string) => (
    <button key={id} type="button" className={css['nodeButton']} onClick={() => select(id)}>
      {id}
    </button>
  );
  return (
    <Panel title={node.id} tools={<Button onClick={() => select('')}>Close</Button>}>
      <Facts
        facts={[
          ['Op', <code key="op">{node.op}</code>],
          ['Format', node.dtype],
          [
            'Output',
            <code key="out">
              {shape(node.shape, outputs[0]?.dtype ?? (node.op === 'sample' ? 'u32' : 'f32'))}
            </code>,
          ],
          [
            'Inputs',
            inputs.length === 0 ? (
              'token ids'
            ) : (
              <ul className={css['plain']}>
                {inputs.map(({ from, shape: of, dtype }) => (
                  <li key={from}>
                    {link(from)} <code>{shape(of, dtype)}</code>
                  </li>
                ))}
              </ul>
            ),
          ],
          ['Per token', `${formatNumber(node.flops, 0)} FLOP, ${formatBytes(node.bytes)} moved`],
          [
            'Kernel',
            <div key="kernel">
              <strong>{name}</strong> {isBuiltin ? 'built-in' : <Badge tone="good">lab</Badge>}
              {variant !== undefined && (
                <details className={css['kernelText']}>
                  <summary>Compiled as</summary>
                  {variant.split('&').map((one) => (
                    <div key={one}>
                      <code>{one.replace('=', ' = ')}</code>
                    </div>
                  ))}
                </details>
              )}
            </div>,
          ],
          [
            'Dispatch',
            otherNodes.length === 0 ? (
              `${node.component} (this node only)`
            ) : (
              <div key="dispatch">
                <code>{node.component}</code>, fused with {otherNodes.map(({ id }) => shortId(id)).join(', ')}
              </div>
            ),
          ],
          [
            'GPU time',
            unit?.ms === undefined
              ? 'not measured since the kernels last changed'
              : `${formatMs(unit.ms)}, ${formatShare(unit.share ?? 0)} of a token${otherNodes.length > 0 ? ', for the whole dispatch' : ''}`,
          ],
        ]}
      />
      <p>
        <Link href={workbenchPath(node.op)}>Write a kernel for {node.op}</Link>
      </p>
      {parts && <BindNodeForm key={node.id} graph={graph} node={node} parts={parts} />}
    </Panel>
  );
}
