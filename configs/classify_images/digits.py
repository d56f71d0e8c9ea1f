"""Images classified: attention among patches, inside windows, and convolutions with gates.

What it shows: five networks of 38 to 40 thousand parameters on scikit-learn's digits, 8 × 8 pixels,
1,438 to learn from and 359 to judge by. Convolutions know beforehand that what is near belongs together
and that a stroke is the same wherever it stands; attention among 16 patches has to learn it from the
images, and there are few. Then: what reaches the class token of the ViT, which places CBAM's gates let
through, and which channels those of SE.

    python -m experiments.classify_images --config=configs/classify_images/digits.py

Result to expect (means over seeds 0, 1, 2, the least and the most of them; Python 3.12; 127 s of CPU
time on an AMD EPYC that was doing other work):

    400 steps each    parameters    ms per step    accuracy                 loss
    ViT               39,242        8.7            0.963 (0.953 to 0.978)   0.128
    Swin              38,670        6.9            0.961 (0.950 to 0.967)   0.139
    plain             38,266        6.5            0.997 (0.992 to 1.000)   0.013
    SE                39,518        7.4            0.995 (0.992 to 0.997)   0.019
    CBAM              39,572        9.3            0.997 (0.994 to 1.000)   0.010

    3 s each    steps    accuracy                 loss
    ViT         343      0.961 (0.947 to 0.969)   0.142
    Swin        438      0.958 (0.955 to 0.964)   0.161
    plain       461      0.996 (0.994 to 0.997)   0.014
    SE          407      0.994 (0.992 to 1.000)   0.015
    CBAM        324      0.995 (0.994 to 0.997)   0.012

- With every seed every convolutional network is better than both Transformers, at equal steps and at
  equal time. Among the three, and between ViT and Swin, it is a tie: one image is 0.003.
- Gates cost 3 % of parameters, SE's 13 % of time, CBAM's 42 %.
- SE's first gate lets all through about alike, whatever the class; the later ones shut some channels for
  some digits. CBAM's gates of places shut corners, where there is no ink.

Times are the processor's; so is the limit of 3 s, which leaves other numbers of steps on other machines.
The rate was chosen on a fifth of the images that are learned from.
`--config.data.name=mnist` (or cifar10, or any other set of images with labels that TensorFlow Datasets
has prepared) is read as it is; the patch and the window have to suit it.
"""

from experiments.classify_images.config import Config


def get_config() -> Config:
    return Config()
