"""Gates in a small convolutional network: where they stand, in what order, and what they cost.

What it shows: SE and CBAM in the first stage alone ("early"), in the last alone ("late") and in all
three; CBAM's two gates in sequence and in parallel; and dynamic convolution, four kernels mixed anew for
each image, against the plain network and against one that is twice as wide, of as many parameters as
the dynamic one. Of scikit-learn's digits only 300 are learned from, so that there is room for better.

    python -m experiments.classify_images --config=configs/classify_images/gates.py

Result to expect (means over seeds 0, 1, 2, the least and the most of them; Python 3.12; 147 s of CPU
time on an AMD EPYC that was doing other work):

    network             parameters    ms per step    accuracy                 loss
    plain               19,810        5.4            0.967 (0.967 to 0.967)   0.107
    SE early            19,852        5.7            0.966 (0.964 to 0.969)   0.115
    SE late             20,362        5.4            0.966 (0.961 to 0.969)   0.107
    SE                  20,552        6.3            0.956 (0.942 to 0.967)   0.133
    CBAM early          19,870        6.3            0.969 (0.964 to 0.975)   0.113
    CBAM late           20,380        5.5            0.958 (0.947 to 0.967)   0.126
    CBAM                20,606        7.8            0.966 (0.958 to 0.975)   0.115
    CBAM in parallel    20,606        7.5            0.968 (0.967 to 0.969)   0.109
    dynamic             75,672        10.3           0.966 (0.961 to 0.972)   0.108
    wide                77,754        13.8           0.971 (0.964 to 0.980)   0.084

- In accuracy it is a tie: one image is 0.003, and what the seeds make of a network overlaps with what
  they make of any other, or touches it. On so few and small digits no gate pays, wherever it stands; nor
  does the order of CBAM's gates matter, nor a kernel that is mixed.
- What they cost does differ. An early gate adds 0.2 to 0.3 % of parameters, a late one 3 %, as channels
  are twice doubled; in time it is the early one that costs, 5 to 17 %, having all the places to go
  through, and a late one up to 1 %. Everywhere SE costs 16 % of time and CBAM 43 %.
- A dynamic convolution has nearly four times the parameters and takes 1.9 times as long; the wide
  network takes 2.5 times as long, and has the least loss.

Times are the processor's.
"""

from experiments.classify_images.config import Config, Data, Training
from experiments.classify_images.networks import Sizes


def get_config() -> Config:
    return Config(
        networks=(
            "plain", "SE early", "SE late", "SE", "CBAM early", "CBAM late", "CBAM",
            "CBAM in parallel", "dynamic", "wide",
        ),
        data=Data(examples=300),
        sizes=Sizes(width=8, depths=(1, 1, 1)),
        train=Training(steps=200, seconds=0.0),
    )  # fmt: skip
