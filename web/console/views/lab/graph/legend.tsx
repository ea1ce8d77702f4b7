import { type Colouring, kernelColour, timeGround } from './colours.ts';
import css from './graph.module.css';
import { formatShare, type KernelName, type Times } from './model.ts';

const steps = 5;

export function Legend(props: { colouring: Colouring; times: Times; kernels: readonly KernelName[] }) {
  const { colouring, times, kernels } = props;
  if (colouring === 'kernel') {
    return (
      <div className={css['legend']}>
        {kernels.map(({ name, isBuiltin }) => (
          <span key={name}>
            <i className={css['swatch']} style={{ background: kernelColour(kernels, name) }} />
            {isBuiltin ? name : <strong>lab: {name}</strong>}
          </span>
        ))}
      </div>
    );
  }
  if (!times.isMeasured) return null;
  return (
    <div className={css['legend']}>
      <span>
        Share of GPU time per decoded token: 0 %
        <span className={css['ramp']}>
          {Array.from({ length: steps }, (_, step) => (
            <i key={step} style={{ background: timeGround((times.mostShare * step) / (steps - 1), times) }} />
          ))}
        </span>
        {formatShare(times.mostShare)}
      </span>
    </div>
  );
}
