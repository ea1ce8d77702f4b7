import { useState } from 'react';
import { Link } from 'wouter';
import { Button, Field, FaultNote, Row } from '../../../../ui/index.tsx';
import { type BindRequest, boundKernels, type Parts, UnbindAllButton, useBind } from '../bindings.tsx';
import { type GraphNode, type LabGraph, layerOf, shortId, slotOf } from './graph-model.ts';
import { workbenchPath } from '../kernels/paths.ts';

interface Choice {
  readonly kernel: string;
  /** Id of a node, or of a span around it. */
  readonly target: string;
  readonly isSpan: boolean;
}

/** Registered kernels that can run a node or a span that contains it. */
export function BindNodeForm({ graph, node, parts }: { graph: LabGraph; node: GraphNode; parts: Parts }) {
  const bind = useBind();
  const choices = bindChoices(graph, node, parts);
  const [chosenIndex, setChosen] = useState(0);
  const [inAllLayers, setInAllLayers] = useState(true);
  const choice = choices[chosenIndex] ?? choices[0];
  const bound = boundKernels(parts);
  const spans = graph.spans.filter(({ nodes }) => nodes.includes(node.id));
  return (
    <>
      <h3>Bind a kernel here</h3>
      {choice === undefined ? (
        <p>
          No accepted kernel is registered for <code>{node.op}</code>
          {spans.length > 0 && (
            <>
              {' '}
              or for a span around it (
              {[...new Set(spans.map(({ op }) => op))].map((op, index) => (
                <span key={op}>
                  {index > 0 && ', '}
                  <Link href={workbenchPath(op)}>{op}</Link>
                </span>
              ))}
              )
            </>
          )}
          . <Link href={workbenchPath(node.op)}>Write one</Link> to bind it here.
        </p>
      ) : (
        <>
          <Field label="Kernel and component">
            {(control) => (
              <select
                {...control}
                value={chosenIndex}
                onChange={({ target }) => {
                  setChosen(Number(target.value));
                  bind.reset();
                }}
              >
                {choices.map(({ kernel, target, isSpan }, index) => (
                  <option key={`${kernel} ${target}`} value={index}>
                    {kernel} on {shortId(target)}
                    {isSpan ? ' (span)' : ''}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {layerOf(node.id) !== undefined && (
            <label>
              <input
                type="checkbox"
                checked={inAllLayers}
                onChange={({ target }) => setInAllLayers(target.checked)}
              />{' '}
              In all layers
            </label>
          )}
          <Row>
            <Button
              kind="primary"
              busy={bind.isPending}
              onClick={() => bind.mutate(requestOf(choice, inAllLayers))}
            >
              Bind {choice.kernel}
            </Button>
            <UnbindAllButton kernels={bound} />
          </Row>
        </>
      )}
      <div role="status">
        {bind.data && (
          <p>
            Bound to{' '}
            {bind.data.components.length === 1
              ? bind.data.components[0]
              : `${bind.data.components.length} components`}
            {bind.data.replaced.length > 0 && `; replaced: ${bind.data.replaced.join(', ')}`}.
          </p>
        )}
      </div>
      {bind.isError && <FaultNote error={bind.error} />}
      {choice === undefined && <UnbindAllButton kernels={bound} />}
    </>
  );
}

function bindChoices({ spans }: LabGraph, node: GraphNode, { slots }: Parts): Choice[] {
  const compatible = (id: string) =>
    slots.filter(({ slot, swappable }) => swappable && slot === slotOf(id)).flatMap((one) => one.compatible);
  return [
    ...compatible(node.id).map((kernel) => ({ kernel, target: node.id, isSpan: false })),
    ...spans
      .filter(({ nodes }) => nodes.includes(node.id))
      .flatMap(({ id }) => compatible(id).map((kernel) => ({ kernel, target: id, isSpan: true }))),
  ];
}

function requestOf({ kernel, target, isSpan }: Choice, inAllLayers: boolean): BindRequest {
  const id = inAllLayers ? slotOf(target) : target;
  return isSpan ? { kernel, span: id } : { kernel, components: [id] };
}
