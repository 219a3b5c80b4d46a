"""Speed, as ratios within one run. Machines are shared and noisy; absolute figures mean little."""
