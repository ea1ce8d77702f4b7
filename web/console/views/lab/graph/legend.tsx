import { type ColorMode, kernelColor, timeColor } from './colors.ts';
import css from './graph.module.css';
import { formatShare, type KernelName, type Times } from './graph-model.ts';

const rampSteps = 5;

export function Legend(props: { colorMode: ColorMode; times: Times; kernels: readonly KernelName[] }) {
  const { colorMode, times, kernels } = props;
  if (colorMode === 'kernel') {
    return (
      <div className={css['legend']}>
        {kernels.map(({ name, isBuiltin }) => (
          <span key={name}>
            <i className={css['swatch']} style={{ background: kernelColor(kernels, name) }} />
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
          {Array.from({ length: rampSteps }, (_, step) => (
            <i
              key={step}
              style={{ background: timeColor((times.maxShare * step) / (rampSteps - 1), times) }}
            />
          ))}
        </span>
        {formatShare(times.maxShare)}
      </span>
    </div>
  );
}
